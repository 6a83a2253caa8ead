# SPDX-License-Identifier: Apache-2.0
"""Inside a plain Spark: answers one job per line of stdin, each in a session of its own."""

import json
import sys

from pyspark.sql import SparkSession

from harness import jobs


def main() -> None:
    builder = SparkSession.builder.appName("plain").master("local[2]")
    for key, value in json.loads(sys.argv[1]).items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    for asked in map(json.loads, sys.stdin):
        session = spark.newSession()
        for key, value in asked["conf"].items():
            session.conf.set(key, value)
        answer = getattr(jobs, asked["job"])(session, **asked["arguments"])
        print(json.dumps(answer), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
