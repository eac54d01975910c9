#!/bin/sh
# Pack hidden labels as the platform takes them: make_ground_truth.sh TRUTH_FOLDER ground_truth.tar.gz
set -eu
unset CDPATH

refuse() {
    printf 'make_ground_truth.sh: %s\n' "$1" >&2
    exit 2
}

[ $# -eq 2 ] || refuse "usage: make_ground_truth.sh TRUTH_FOLDER ground_truth.tar.gz"
case $2 in
*.tar.gz) ;;
*) refuse "$2: the platform takes a name that ends with .tar.gz" ;;
esac
[ -d "$(dirname -- "$2")" ] || refuse "$2: no such folder"
for name in truth.parquet task.yaml; do
    [ -f "$1/$name" ] || refuse "$1: no $name; the folder needs truth.parquet and a copy of the published task.yaml"
done

# Nobody else may read the labels here; what reads them there runs as a user that is not known now.
umask 077
packing=$(mktemp -d)
trap 'rm -rf "$packing"' EXIT
trap 'exit 130' HUP INT TERM
mkdir "$packing/truth"
for name in truth.parquet task.yaml host.key; do
    [ ! -f "$1/$name" ] || cat <"$1/$name" >"$packing/truth/$name"
done
chmod 644 "$packing"/truth/*
# Members are named one by one: no folder in the archive, nothing of the system's own in it.
(cd -- "$packing/truth" && COPYFILE_DISABLE=1 tar -cf ../truth.tar *)
gzip "$packing/truth.tar"
mv -f -- "$packing/truth.tar.gz" "$2"
printf '%s: ' "$2"
(cd -- "$packing/truth" && echo *)
