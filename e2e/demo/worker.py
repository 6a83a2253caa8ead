# SPDX-License-Identifier: Apache-2.0
"""Inside one PySpark process: runs the demo's jobs as their names arrive on stdin.

Each job prints two lines of JSON on stdout: seconds and answer as soon as it has ended, then the
counts of Spark and Lodestone.
"""

import json
import sys
import time

from pyspark.sql import SparkSession

from tpch import query

from . import jobs

REPORT_QUIET_MS = 5000
PLUGIN_PACKAGE = "org.apache.spark.shuffle.lodestone"


def main() -> None:
    specification = json.loads(sys.argv[1])
    builder = SparkSession.builder.appName("Lodestone demo").master(specification["master"])
    for key, value in specification["conf"].items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    log_decisions(spark)
    meter = spark._jvm.io.lodestone.e2e.StageMeter.of(
        spark.sparkContext._jsc, specification["ended"]
    )
    query.name_tables(spark, specification["tables"])
    warm_up(spark)
    meter.take()
    emit(report=full_report_of(spark))
    for name in map(str.strip, sys.stdin):
        began = time.monotonic()
        answer = jobs.run(spark, name, specification["sizes"].get(name, {}))
        emit(seconds=time.monotonic() - began, answer=answer)
        emit(stages=json.loads(meter.take()), report=full_report_of(spark))
    spark.stop()


def log_decisions(spark: SparkSession) -> None:
    """Shows Lodestone's decisions in the driver's log: by default PySpark logs warnings only."""
    log4j = spark._jvm.org.apache.logging.log4j
    configurator = log4j.core.config.Configurator
    configurator.setLevel(PLUGIN_PACKAGE, log4j.Level.INFO)
    # What goes as planned is at DEBUG.
    configurator.setLevel(f"{PLUGIN_PACKAGE}.driver.report.DriverReport", log4j.Level.DEBUG)


def warm_up(spark: SparkSession) -> None:
    """Starts executors, and loads the classes of scans, joins, shuffles and sorts.

    It is too small for Lodestone to measure the disk or to start its daemon: the first job does.
    """
    spark.range(1000).createOrReplaceTempView("warming")
    if spark.catalog.tableExists("nation"):
        rows = "supplier join nation on s_nationkey = n_nationkey where s_acctbal > 0"
        spark.sql(f"select n_name, count(distinct s_suppkey) as n from {rows} group by 1").collect()
    spark.sql("select id % 7, count(distinct id) as n from warming group by 1 order by n").collect()
    jobs.exchanged_records(spark, maps=4, records=100, partitions=4)


def report_of(spark: SparkSession) -> dict:
    """Returns Lodestone's totals so far; nothing on plain Spark."""
    return full_report_of(spark).get("totals", {})


def full_report_of(spark: SparkSession) -> dict:
    """Returns everything that Lodestone has counted so far, also for each shuffle; nothing on plain
    Spark."""
    if "lodestone" not in spark.sparkContext.getConf().get("spark.shuffle.manager", "sort"):
        return {}
    report = spark._jvm.org.apache.spark.shuffle.lodestone.LodestoneReport
    report.awaitQuiet(REPORT_QUIET_MS)
    return json.loads(report.json())


def emit(**event) -> None:
    print(json.dumps(event), flush=True)


if __name__ == "__main__":
    main()
