#!/bin/sh
# Pack a competition: make_bundle.sh TRUTH_FOLDER LOGO.png OUT_FOLDER
# Makes competition.zip to upload, and reference_data.zip and scoring_program.zip, which are in it. Set PYTHON for
# another interpreter than python3.
set -eu
unset CDPATH

PYTHON=${PYTHON:-python3}
here=$(cd -- "$(dirname -- "$0")" && pwd -P)

refuse() {
    printf 'make_bundle.sh: %s\n' "$1" >&2
    exit 2
}

[ $# -eq 3 ] || refuse "usage: make_bundle.sh TRUTH_FOLDER LOGO.png OUT_FOLDER"
for name in truth.parquet task.yaml; do
    [ -f "$1/$name" ] || refuse "$1: no $name; the folder needs truth.parquet and a copy of the published task.yaml"
done
kind=$(sed -n 's/^kind: *//p' "$1/task.yaml")
case $kind in
binary) ;;
*) ! grep -q 'key: brier_binary$' "$here/competition.yaml" ||
    refuse "the task is $kind, and competition.yaml has the columns of a binary one; see README.md" ;;
esac
[ -f "$2" ] || refuse "$2: no such file; the platform wants a logo"

umask 077 # labels are in it
mkdir -p -- "$3"
packing=$(mktemp -d)
trap 'rm -rf "$packing"' EXIT
trap 'exit 130' HUP INT TERM
mkdir "$packing/reference" "$packing/all"
for name in truth.parquet task.yaml host.key; do
    [ ! -f "$1/$name" ] || cat <"$1/$name" >"$packing/reference/$name"
done
cp -- "$here/competition.yaml" "$here/overview.md" "$here/terms.md" "$packing/all"
cat <"$2" >"$packing/all/logo.png"

# Each zip holds files, not a folder around them: the platform looks no deeper.
"$PYTHON" -m zipfile -c "$packing/all/reference_data.zip" "$packing"/reference/*
"$PYTHON" -m zipfile -c "$packing/all/scoring_program.zip" "$here/scoring_program/metadata.yaml"
"$PYTHON" -m zipfile -c "$packing/competition.zip" "$packing"/all/*
mv -f -- "$packing/all/reference_data.zip" "$packing/all/scoring_program.zip" "$packing/competition.zip" "$3"
printf '%s: competition.zip, reference_data.zip, scoring_program.zip\n' "$3"
