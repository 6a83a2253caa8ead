# SPDX-License-Identifier: Apache-2.0
"""The daemon for 64-bit ARM does on an emulated CPU what the other one does."""

import zipfile

import pytest

from harness.paths import DAEMON_AARCH64, plugin_jar
from harness.spark_process import ONE_EXECUTOR, Job

PROGRAM = ("qemu-aarch64-static", DAEMON_AARCH64)
CONF = {"spark.lodestone.request.timeout": "30s", "spark.lodestone.push.timeout": "30s"}


@pytest.mark.seldom
@pytest.mark.lines("4.1")
@pytest.mark.parametrize("mode", ["merge", "remote"])
def test_shuffles_at_a_daemon_on_arm_have_plain_sparks_answers(
    mode, start_daemon, start_job, plain_answer
):
    daemon = start_daemon(program=PROGRAM)
    ours = {"spark.lodestone.services": daemon.host_port, "spark.lodestone.mode": mode}
    arguments = {"rows": 100000, "partitions": 8}
    job = Job("sql_aggregate", arguments, ONE_EXECUTOR, CONF | ours)
    outcome = start_job(job).wait()
    assert outcome.answer == plain_answer(job)
    totals = outcome.report["totals"]
    assert totals[{"merge": "merged", "remote": "remote"}[mode]] > 0
    assert totals["originalsRead"] == 0
    assert daemon.stop() == 0


@pytest.mark.seldom
@pytest.mark.lines("3.5", "3.5-scala-2.13", "4.1")
def test_a_jar_has_the_daemon_for_arm_that_was_tested(spark):
    with zipfile.ZipFile(plugin_jar(spark)) as jar:
        assert jar.read("lodestone/linux-aarch64/lodestone") == DAEMON_AARCH64.read_bytes()
