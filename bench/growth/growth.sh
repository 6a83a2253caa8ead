#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Whether a gigabyte costs the same when there is more of everything: connections, partitions, shuffles.
# usage: bench/growth/growth.sh [lodestone [bytes [rounds]]]; from the project's folder, after `make build`
set -eu
lodestone=${1:-dist/lodestone}
total=${2:-1g}
rounds=${3:-5}

measure() {
    what=$1
    shift
    "$lodestone" bench push --total "$total" --rounds "$rounds" "$@" 2>/dev/null | row "$what"
    "$lodestone" bench fetch --from merged --total "$total" --rounds "$rounds" "$@" 2>/dev/null | row "$what"
}

# Of the table the row, behind what was different; seconds and CPU seconds per GB are in it.
row() {
    grep -E '^ *[0-9]+ [KM]B ' | sed "s/^/$(printf '%-34s' "$1")/"
}

header=$("$lodestone" bench push --total 1m --rounds 1 --warmup 0 2>/dev/null | head -1)
printf '%-34s%s\n' '' "$header"
for connections in 10 100 1000; do
    measure "$connections connections" --block 10k --connections "$connections"
done
for partitions in 100 1000 10000; do
    measure "$partitions partitions" --block 10k --partitions "$partitions"
done
for shuffles in 1 10 100; do
    measure "$shuffles shuffles" --block 10k --shuffles "$shuffles"
done
