# SPDX-License-Identifier: Apache-2.0
"""The event log of an application with Lodestone: it has the whole report."""

import json
import subprocess

import pytest

from harness.driver import environment
from harness.paths import DAEMON, EVERY_LINE, SELDOM, python_of
from harness.spark_process import IN_THE_DRIVER, configuration

TIMEOUT_S = 200
# It stops as soon as it has its answer.
ONE_JOB = """
import json, os
from pyspark import SparkConf, SparkContext
conf = SparkConf().setAll(json.loads(os.environ["SETTINGS"]).items())
context = SparkContext(conf=conf)
rows = context.parallelize(range(3000), 6).map(lambda n: (n % 499, n))
assert rows.partitionBy(8).values().sum() == 4498500
context.stop()
"""


@pytest.mark.lines(*EVERY_LINE, seldom=SELDOM)
def test_the_log_of_an_application_that_ends_with_its_only_job_has_all_that_its_tasks_did(
    spark, start_daemon, tmp_path
):
    logs = tmp_path / "logs"
    logs.mkdir()
    conf = configuration(spark, tmp_path, lodestone=True) | {
        "spark.master": IN_THE_DRIVER,
        "spark.app.name": "one job",
        "spark.lodestone.services": start_daemon().host_port,
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": logs.as_uri(),
    }
    subprocess.run(
        [python_of(spark), "-c", ONE_JOB],
        check=True, cwd=tmp_path, timeout=TIMEOUT_S,
        env=environment(spark) | {"SETTINGS": json.dumps(conf)},
    )  # fmt: skip
    (log,) = logs.iterdir()
    said = subprocess.run(
        [DAEMON, "explain", "--event-log", log, "--json"], check=True, capture_output=True
    )
    totals = json.loads(said.stdout)["totals"]
    assert (totals["shuffles"], totals["merged"]) == (1, 1)
    assert (totals["blocksPushed"], totals["mergedBlocksRead"]) == (48, 48)
