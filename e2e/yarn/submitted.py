# SPDX-License-Identifier: Apache-2.0
"""The application that `spark-submit` runs: one job, whose answer and report go to a file."""

import json
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from harness import jobs
from harness.worker import report_of, stages_of


def main() -> None:
    specification = json.loads(Path(sys.argv[1]).read_text())
    spark = SparkSession.builder.appName(specification["job"]).getOrCreate()
    answer = getattr(jobs, specification["job"])(spark, **specification["arguments"])
    result = {"answer": answer, "report": report_of(spark), "stages": stages_of(spark)}
    spark.stop()
    # The test may look for it at any time.
    written, whole = (Path(specification["result"]).with_suffix(s) for s in (".part", ".json"))
    written.write_text(json.dumps(result))
    written.rename(whole)


if __name__ == "__main__":
    main()
