#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Flame graphs of the daemon under `lodestone-bench`: of pushes, and of fetches of merged blocks.
# Needs `perf`, and may need root.
# usage: bench/flame/daemon.sh OUT [block ...]   from the project's folder; makes OUT-push-BLOCK.svg
# and OUT-fetch-BLOCK.svg
set -euo pipefail
out=$1
shift
blocks=("${@:-10000b}")
commit=$(git describe --always --dirty)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# Without frame pointers and names stacks would end where they begin.
CARGO_TARGET_DIR=$folder/target RUSTFLAGS="-C force-frame-pointers=yes" CARGO_PROFILE_RELEASE_DEBUG=1 CARGO_PROFILE_RELEASE_STRIP=false \
    cargo build --release --quiet --manifest-path daemon/Cargo.toml -p lodestone-server -p lodestone-bench
lodestone=$folder/target/release/lodestone

# Records a fetch from the end of the pushes before it, for which the bench prints a line.
record_from() {
    verb=$1
    [ "$verb" = fetch ] || echo enable >&3
    while read -r line; do
        echo "$line" >&2
        [[ "$verb $line" != fetch*push* ]] || echo enable >&3
    done
}

# Draws one verb and block size: starts a daemon for it, and records the daemon while the bench
# works.
draw() {
    verb=$1
    block=$2
    shift 2
    mkdir "$folder/data"
    mkfifo "$folder/ready" "$folder/control"
    "$lodestone" serve --listen 127.0.0.1:0 --dir "$folder/data" --executor-root /var/empty >"$folder/ready" 2>"$folder/log" &
    daemon=$!
    read -r ready <"$folder/ready"
    address=$(sed -E 's/.* listen=([^ ]+).*/\1/' <<<"$ready")
    perf record --quiet --freq 999 --call-graph fp --pid "$daemon" --output "$folder/perf" --delay=-1 --control "fifo:$folder/control" &
    perf=$!
    exec 3>"$folder/control"
    "${lodestone}-bench" "$verb" "$@" --server "$address" --block "$block" --connections 1000 --total 1g --rounds 10 2>&1 >/dev/null | record_from "$verb"
    exec 3>&-
    kill -INT "$perf"
    wait "$perf" || true
    kill "$daemon"
    wait "$daemon"
    perf script --input "$folder/perf" 2>/dev/null |
        bench/flame/draw.sh "daemon, $verb of 1 GB ten times in blocks of $block, $commit" perf >"$out-$verb-$block.svg"
    rm -rf "$folder/data" "$folder/ready" "$folder/control"
}

for block in "${blocks[@]}"; do
    draw push "$block"
    draw fetch "$block" --from merged
done
