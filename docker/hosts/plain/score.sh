#!/bin/sh
# Score one submission in the sealed container: score.sh SUBMISSION TRUTH_FOLDER OUTPUT [HOST_FOLDER]
# Set DOCKER (docker or podman) and IMAGE for others than the defaults. The exit code is the container's; the reason of
# code 4 is in HOST_FOLDER/host.log, which the container calls /host, or, with MVC_HOST_LOG=stderr, on standard error.
set -eu
unset CDPATH

DOCKER=${DOCKER:-docker}
IMAGE=${IMAGE:-mvc-scorer:0.1.0}

refuse() {
    printf 'score.sh: %s\n' "$1" >&2
    exit 2
}

# The absolute path of $1, which exists; links are followed, so that the same place always has the same name.
place() {
    if [ -d "$1" ]; then
        (cd -- "$1" && pwd -P)
    else
        (cd -- "$(dirname -- "$1")" && printf '%s/%s\n' "$(pwd -P)" "$(basename -- "$1")")
    fi
}

# The engine splits a volume at its colons.
mountable() {
    case $1 in
    *:* | *'
'*) refuse "$1: a colon or a line break can't be mounted; use another path" ;;
    esac
}

[ $# -eq 3 ] || [ $# -eq 4 ] || refuse "usage: score.sh SUBMISSION TRUTH_FOLDER OUTPUT [HOST_FOLDER]"
for path; do
    mountable "$path"
done
command -v "$DOCKER" >/dev/null || refuse "$DOCKER: no such program; set DOCKER to docker or podman"
[ -e "$1" ] || refuse "$1: no such submission; give a folder, a zip or a packed CSV"
for name in truth.parquet task.yaml; do
    [ -f "$2/$name" ] || refuse "$2: no $name; the folder needs truth.parquet and a copy of the published task.yaml"
done
mkdir -p -- "$3"
[ $# -eq 3 ] || mkdir -p -m 700 -- "$4"

submission=$(place "$1") truth=$(place "$2") output=$(place "$3") host=$([ $# -eq 3 ] || place "$4")
for path in "$submission" "$truth" "$output" ${host:+"$host"}; do
    mountable "$path"
done
for path in "$submission" "$truth" ${host:+"$host"}; do
    case $path/ in "$output"/*) refuse "$path lies in OUTPUT, which is for participants; give another folder" ;; esac
    case $output/ in "$path"/*) refuse "OUTPUT lies in $path; give another folder" ;; esac
done

case $submission in
*.csv) input=/input/submission.csv ;;
*) input=/input/submission.zip ;;
esac
[ ! -d "$submission" ] || input=/input
set -- run --rm --network none --read-only --tmpfs /tmp:rw,noexec,nosuid,size=1g --cap-drop ALL \
    --security-opt no-new-privileges --pids-limit 128 --memory 4g --memory-swap 4g --user "$(id -u):$(id -g)" \
    --volume "$submission:$input:ro" --volume "$truth:/truth:ro" --volume "$output:/output:rw"
[ -z "${MVC_HOST_LOG-}" ] || set -- "$@" --env "MVC_HOST_LOG=$MVC_HOST_LOG"
[ -z "$host" ] || set -- "$@" --volume "$host:/host:rw"
# Without root, podman numbers users anew; outputs would belong to a number of its own.
case $(id -u):$("$DOCKER" --version) in
0:*) ;;
*podman*) set -- "$@" --userns keep-id ;;
esac
exec "$DOCKER" "$@" "$IMAGE"
