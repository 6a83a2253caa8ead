# SPDX-License-Identifier: Apache-2.0
"""The Spark application: sorts files once, and prints the result as a line of JSON."""

import json
import sys
import time

from pyspark.sql import SparkSession

from demo.worker import report_of


def main() -> None:
    asked = json.loads(sys.argv[1])
    builder = SparkSession.builder.appName("Lodestone sort").master(asked["conf"]["spark.master"])
    for key, value in asked["conf"].items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    context = spark.sparkContext._jsc
    meter = spark._jvm.io.lodestone.e2e.StageMeter.of(context, asked["ended"])
    began_ms = time.time() * 1000
    files = spark._jvm.io.lodestone.sort.SortFiles
    result = json.loads(
        files.run(
            context, asked["source"], asked["target"], asked["splitBytes"], asked["partitions"]
        )
    )
    result |= {"beganMs": round(began_ms), "stages": json.loads(meter.take())}
    sorted_at = time.monotonic()
    result |= {"report": report_of(spark), "reportSeconds": time.monotonic() - sorted_at}
    spark.stop()
    print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
