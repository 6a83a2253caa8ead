# SPDX-License-Identifier: Apache-2.0
"""Inside one PySpark process: runs the demo's jobs as their names arrive on stdin, and tells of each in a line of JSON on stdout."""

import json
import sys
import time

from pyspark.sql import SparkSession

from tpch import query

REPORT_QUIET_MS = 5000
# 10 MB in 8 x 40 blocks of about 30 KB.
SORT_SEED, SORT_MAPS, SORT_RECORDS_PER_MAP, SORT_PARTITIONS = 20260, 8, 12_000, 40


def main() -> None:
    specification = json.loads(sys.argv[1])
    builder = SparkSession.builder.appName("Lodestone demo").master(specification["master"])
    for key, value in specification["conf"].items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    query.name_tables(spark, specification["tables"])
    warm_up(spark)
    tell(report=report_of(spark))
    for name in map(str.strip, sys.stdin):
        began = time.monotonic()
        answer = record_sort(spark) if name == "sort" else query.rows_of(spark, name)
        seconds = time.monotonic() - began
        tell(seconds=seconds, answer=answer, report=report_of(spark))
    spark.stop()


def warm_up(spark: SparkSession) -> None:
    """Starts executors and loads the classes of scans, joins, shuffles and sorts; on Lodestone's side finds or starts the daemon."""
    spark.sql(
        "select n_name, count(distinct s_suppkey) as n from supplier join nation on s_nationkey = n_nationkey"
        " where s_acctbal > 0 group by n_name order by n desc"
    ).collect()


def record_sort(spark: SparkSession) -> list[list[str]]:
    """The record sort's own check: how many records, whether in order, a checksum."""
    jobs = spark._jvm.io.lodestone.e2e
    told = jobs.RecordSort.run(
        spark.sparkContext._jsc, SORT_SEED, SORT_MAPS, SORT_RECORDS_PER_MAP, SORT_PARTITIONS
    )
    assert json.loads(told)["inOrder"], f"not sorted: {told}"
    return [[told]]


def report_of(spark: SparkSession) -> dict:
    """Lodestone's totals so far; nothing on plain Spark."""
    if "lodestone" not in spark.sparkContext.getConf().get("spark.shuffle.manager", "sort"):
        return {}
    report = spark._jvm.org.apache.spark.shuffle.lodestone.LodestoneReport
    report.awaitQuiet(REPORT_QUIET_MS)
    return json.loads(report.json()).get("totals", {})


def tell(**event) -> None:
    print(json.dumps(event), flush=True)


if __name__ == "__main__":
    main()
