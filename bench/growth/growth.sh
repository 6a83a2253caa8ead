#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Does a gigabyte cost the same with more connections, partitions or shuffles?
# usage: bench/growth/growth.sh [lodestone [bytes [rounds]]]; from the project's folder, after `make
# build bench-tools`
set -euo pipefail
lodestone=${1:-dist/lodestone}
total=${2:-1g}
rounds=${3:-5}

measure() {
    what=$1
    shift
    for verb in push "fetch --from merged"; do
        # shellcheck disable=SC2086 # a verb and its flag
        dist/lodestone-bench $verb --daemon "$lodestone" --block 10000b --total "$total" --rounds "$rounds" "$@" | row "$what"
    done
}

# Prints the row of the table, after a name for the difference; it has the seconds and the CPU
# seconds per GB.
row() {
    grep -E '^ *[0-9]+(b|[KM]iB) ' | sed "s/^/$(printf '%-34s' "$1")/"
}

table=$(dist/lodestone-bench push --daemon "$lodestone" --total 1m --rounds 1 --warmup 0)
printf '%-34s%s\n' '' "${table%%$'\n'*}"
for connections in 10 100 1000; do
    measure "$connections connections" --connections "$connections"
done
for partitions in 100 1000 10000; do
    measure "$partitions partitions" --partitions "$partitions"
done
for shuffles in 1 10 100; do
    measure "$shuffles shuffles" --shuffles "$shuffles"
done
