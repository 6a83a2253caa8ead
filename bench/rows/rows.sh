#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What encoded rows take of one core: see RowSpeed.java. Run it after `make bench`, which makes the tables and the environment.
set -euo pipefail
cd "$(dirname "$0")/../.."
spark=$(echo .venv-4.1.4/lib/python3*/site-packages/pyspark)
plugin=dist/jars/lodestone-spark-4_2.13.jar
classes=$(mktemp -d)
trap 'rm -rf "$classes"' EXIT
javac -nowarn -d "$classes/rows" -cp "$plugin:$spark/jars/*" bench/rows/RowSpeed.java
jar --create --file "$classes/rows.jar" -C "$classes/rows" .
SPARK_HOME=$spark "$spark/bin/spark-submit" --master 'local[1]' --driver-memory 3g --driver-class-path "$plugin" \
  --class RowSpeed "$classes/rows.jar" .cache/tpch-sf1
