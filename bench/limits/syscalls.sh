#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The most that io_uring could save: the system calls that the daemon makes for each gigabyte, times
# the cost of entering and leaving the kernel here, beside the CPU seconds of the gigabyte. (The
# work of io_uring inside of the kernel - the copies, the checks, the locks - is the same.)
# usage: bench/limits/syscalls.sh [lodestone [bytes]]; from the project's folder, after `make build
# bench-tools`; needs strace and a C compiler
set -euo pipefail
lodestone=${1:-dist/lodestone}
total=${2:-1g}
work=$(mktemp -d)
daemon=
trap '[ -z "$daemon" ] || kill "$daemon"; rm -rf "$work"' EXIT

# Seconds of an empty system call: the cost of the way in and out, with whatever mitigations this
# kernel has.
cat >"$work/empty.c" <<'C'
#include <stdio.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
int main(void) {
  enum { COUNT = 5000000 };
  struct timespec from, to;
  clock_gettime(CLOCK_MONOTONIC, &from);
  for (int i = 0; i < COUNT; i++) syscall(SYS_getppid);
  clock_gettime(CLOCK_MONOTONIC, &to);
  printf("%.0f\n", ((to.tv_sec - from.tv_sec) * 1e9 + (to.tv_nsec - from.tv_nsec)) / COUNT);
}
C
cc -O2 -o "$work/empty" "$work/empty.c"
empty_ns=$("$work/empty")
echo "an empty system call: $empty_ns ns"

# Starts a daemon, which prints its address on stdout when it is ready.
start_daemon() {
    mkdir -p "$work/data"
    exec 3< <(exec "$lodestone" serve --dir "$work/data" --listen 127.0.0.1:0 --memory "$1" 2>"$work/log")
    daemon=$!
    read -r ready <&3
    port=$(grep -oE '127\.0\.0\.1:[0-9]+' <<<"$ready" | head -1)
}

stop_daemon() {
    kill "$daemon"
    wait "$daemon" || true
    daemon=
}

# CPU seconds per GB of an undisturbed run, and calls per GB of one under strace.
measure() {
    what=$1 memory=$2
    shift 2
    start_daemon "$memory"
    cpu=$(dist/lodestone-bench "$@" --server "$port" --pid "$daemon" --total "$total" --rounds 3 | grep -E '^ *[0-9]+(b|[KM]iB) ')
    exec 4< <(exec strace -c -f -o "$work/calls" -p "$daemon" 2>&1)
    tracer=$!
    # It prints a line when it has attached to the daemon.
    read -r _ <&4
    dist/lodestone-bench "$@" --server "$port" --pid "$daemon" --total "$total" --rounds 1 --warmup 0 >/dev/null
    kill -INT "$tracer"
    wait "$tracer" || true
    stop_daemon
    echo "== $what, $memory of memory: $*"
    echo "$cpu"
    sort -k4 -n -r "$work/calls" | awk '$4 ~ /^[0-9]+$/ && $NF != "total" { printf "   %9d %s\n", $4, $NF }' | head -8
    awk -v empty="$empty_ns" '$4 ~ /^[0-9]+$/ && $NF != "total" { all += $4 }
        END { printf "   all: %d calls, %.3f s of entering and leaving the kernel\n", all, all * empty / 1e9 }' "$work/calls"
}

for block in 10000b 100000b 1000000b; do
    measure "push" 64m push --block "$block" --connections 100
    measure "push and fetch" 2g fetch --from merged --block "$block" --connections 100
done
