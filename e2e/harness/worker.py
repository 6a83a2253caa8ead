# SPDX-License-Identifier: Apache-2.0
"""Inside the PySpark process: builds the session, runs one job, writes the answer and the report."""

import json
import sys
from itertools import count, takewhile

from pyspark.sql import SparkSession

from harness import jobs

REPORT_QUIET_MS = 5000


def main() -> None:
    specification = json.loads(sys.argv[1])
    builder = SparkSession.builder.appName(specification["job"]).master(specification["master"])
    for key, value in specification["conf"].items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("INFO")
    answer = getattr(jobs, specification["job"])(spark, **specification["arguments"])
    told = {"answer": answer, "report": report_of(spark), "stages": stages_of(spark)}
    end(spark)
    with open(specification["result"], "w", encoding="utf-8") as out:
        json.dump(told, out)


def end(spark: SparkSession) -> None:
    """Returns when the JVM is gone too."""
    gateway = spark.sparkContext._gateway
    spark.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait()


def report_of(spark: SparkSession):
    """Lodestone's report."""
    report = spark.sparkContext._jvm.org.apache.spark.shuffle.lodestone.LodestoneReport
    report.awaitQuiet(REPORT_QUIET_MS)
    return json.loads(report.json())


def stages_of(spark: SparkSession):
    """The last attempt of each stage: its number and how many tasks it had."""
    tracker = spark.sparkContext.statusTracker()
    stages = takewhile(lambda stage: stage is not None, map(tracker.getStageInfo, count()))
    return [[stage.currentAttemptId, stage.numTasks] for stage in stages]


if __name__ == "__main__":
    main()
