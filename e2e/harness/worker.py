# SPDX-License-Identifier: Apache-2.0
"""Inside the PySpark process: for each line of stdin it builds a session, runs one job, and writes
the answer and the report."""

import json
import os
import sys

from py4j.java_gateway import JavaGateway
from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from harness import jobs

REPORT_QUIET_MS = 5000


def main() -> None:
    replies = os.fdopen(os.dup(1), "w")
    # The JVM, and every print, writes to the log.
    os.dup2(2, 1)
    gateway = launch_gateway()
    for line in sys.stdin:
        run(gateway, json.loads(line))
        print("done", file=replies, flush=True)
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait()


def run(gateway: JavaGateway, specification: dict) -> None:
    conf = SparkConf(_jvm=gateway.jvm).setAll(specification["conf"].items())
    conf.setMaster(specification["master"]).setAppName(specification["job"])
    context = SparkContext(gateway=gateway, conf=conf)
    context.setLogLevel("INFO")
    spark = SparkSession(context)
    answer = getattr(jobs, specification["job"])(spark, **specification["arguments"])
    result = {"answer": answer, "report": report_of(spark), "stages": stages_of(spark)}
    spark.stop()
    # Otherwise workers of a local cluster give the next application's executors the directories of
    # this one.
    utils = getattr(gateway.jvm.org.apache.spark.util, "Utils$")
    getattr(utils, "MODULE$").clearLocalRootDirs()
    with open(specification["result"], "w", encoding="utf-8") as out:
        json.dump(result, out)


def report_of(spark: SparkSession):
    """Returns Lodestone's report, but not that of an earlier application. Stock Spark has none."""
    if not spark.sparkContext.getConf().contains("spark.shuffle.manager"):
        return {}
    report = spark.sparkContext._jvm.org.apache.spark.shuffle.lodestone.LodestoneReport
    report.awaitQuiet(REPORT_QUIET_MS)
    fields = json.loads(report.json())
    return fields if fields.get("application") == spark.sparkContext.applicationId else {}


def stages_of(spark: SparkSession):
    """Returns the last attempt of each stage: its number and how many tasks it had."""
    return [[stage.currentAttemptId, stage.numTasks] for stage in jobs.stages_of(spark)]


if __name__ == "__main__":
    main()
