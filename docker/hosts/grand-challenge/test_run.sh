#!/bin/sh
# Run an upload as the platform would: test_run.sh UPLOAD ground_truth.tar.gz OUTPUT
# Set DOCKER (docker or podman), IMAGE and PYTHON for others than the defaults.
set -eu
unset CDPATH

DOCKER=${DOCKER:-docker}
IMAGE=${IMAGE:-mvc-scorer:0.1.0}
PYTHON=${PYTHON:-python3}
GIGABYTES=8 # evaluation_requires_memory_gb

refuse() {
    printf 'test_run.sh: %s\n' "$1" >&2
    exit 2
}

[ $# -eq 3 ] || refuse "usage: test_run.sh UPLOAD ground_truth.tar.gz OUTPUT"
[ -f "$1" ] || refuse "$1: no such file"
[ -f "$2" ] || refuse "$2: no such file"
seen=$("$DOCKER" image inspect --format '{{.Architecture}} {{.Config.User}}' "$IMAGE") ||
    refuse "$IMAGE: no such image; build it, or set IMAGE"
case $seen in
"amd64 " | "amd64 0" | "amd64 0:"* | "amd64 root"*) refuse "$IMAGE runs as root, which the platform refuses" ;;
amd64*) ;;
*) refuse "$IMAGE is built for ${seen%% *}; the platform takes amd64" ;;
esac

run=$(mktemp -d)
trap 'rm -rf "$run"' EXIT
trap 'exit 130' HUP INT TERM
mkdir "$run/input" "$run/truth"
echo '[]' >"$run/input/inputs.json" # the platform lists here what it brings
case $1 in
*.zip)
    "$PYTHON" -m zipfile -e "$1" "$run/input" 2>"$run/stderr" ||
        refuse "$1 can't be unpacked ($(tail -n 1 "$run/stderr")); the platform would not take it"
    ;;
*.csv) cat <"$1" >"$run/input/predictions.csv" ;;
*) refuse "$1: the platform takes a .zip or a .csv" ;;
esac
tar -xzf "$2" -C "$run/truth"
chmod -R a+rX "$run/input" "$run/truth" # the folder around them is closed to others
mkdir -p -- "$3"
output=$(cd -- "$3" && pwd -P)
case $run:$output in
*:*:*) refuse "a colon in a path can't be mounted: $run, $output" ;;
esac
rm -f -- "$output/metrics.json"
chmod 777 "$output" # as there: the container's user is another one

# Labels are extracted for the container's user, HOME is root's, and the data segment is limited.
code=0
"$DOCKER" run --rm --network none --tmpfs /tmp:rw,noexec,nosuid,size=1g --cap-drop ALL \
    --security-opt no-new-privileges --memory "${GIGABYTES}g" --memory-swap "${GIGABYTES}g" \
    --ulimit "data=$((GIGABYTES << 30)):$((GIGABYTES << 30))" --env HOME=/root \
    --volume "$run/input:/input:ro" --volume "$run/truth:/opt/ml/input/data/ground_truth:ro" \
    --volume "$output:/output:rw" "$IMAGE" 2>"$run/stderr" || code=$?
cat "$run/stderr" >&2
if [ "$code" -ne 0 ]; then
    printf 'failed, exit code %s; participants see: %s\n' "$code" "$(grep -v '^[[:space:]]*$' "$run/stderr" | tail -n 1)"
    exit "$code"
fi
[ -f "$output/metrics.json" ] || refuse "exit code 0, but no metrics.json: the platform would call this failed"
printf 'succeeded; participants see %s\n' "$output/metrics.json"
