#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Do merged files push other files out of the page cache? The script reads a file again and again
# beside a shuffle that is several times larger than the memory that both have, and counts the pages
# of the file that had to come from the disk again.
# usage: bench/limits/pagecache.sh [lodestone [bytes]]; from the project's folder, after `make build
# bench-tools`; needs root and control groups
set -euo pipefail
lodestone=${1:-dist/lodestone}
total=${2:-6g}
memory=$((2 << 30))
hot=$((700 << 20))
# Control groups of either version.
if [ -f /sys/fs/cgroup/cgroup.controllers ]; then
    root=/sys/fs/cgroup limit=memory.max
else
    root=/sys/fs/cgroup/memory limit=memory.limit_in_bytes
fi
group=$root/lodestone-pagecache
work=$(mktemp -d "${TMPDIR:-/var/tmp}/lodestone.XXXXXX")
reader=
finish() {
    [ -z "$reader" ] || kill "$reader" 2>/dev/null || true
    echo $$ >"$root/cgroup.procs"
    rm -rf "$work"
    rmdir "$group" 2>/dev/null || true
}
if ! mkdir -p "$group" 2>/dev/null || ! echo "$memory" 2>/dev/null >"$group/$limit"; then
    echo "Left out: no control groups that may be written."
    exit 0
fi
trap finish EXIT
echo $$ >"$group/cgroup.procs"

head -c "$hot" /dev/urandom >"$work/hot"
sync "$work/hot"
count() { awk -v name="$1" '$1 == name { print $2 }' "$group/memory.stat"; }

# Reads the hot file over and over; one line for each pass.
pass() { while :; do cat "$work/hot" >/dev/null; echo .; done; }
cat "$work/hot" "$work/hot" "$work/hot" >/dev/null
pass >"$work/passes" &
reader=$!

show() { echo "$1: passes $(wc -l <"$work/passes"), refaults $(count workingset_refault_file) pages, active $(($(count active_file) >> 20)) MiB, inactive $(($(count inactive_file) >> 20)) MiB"; }
show "before"
dist/lodestone-bench fetch --daemon "$lodestone" --from merged --block 1m --total "$total" --connections 20 --memory 64m --rounds 1 --warmup 0 --dir "$work" |
    grep -E '^ *[0-9]+(b|[KM]iB) |^blocks'
show "after $total pushed to files and read once"
