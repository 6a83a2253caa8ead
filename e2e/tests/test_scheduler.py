# SPDX-License-Identifier: Apache-2.0
"""Spark's schedulers copy slow tasks, and repeat stages that give other rows."""

import os
import signal

import pytest

from harness.daemon import wait_until
from harness.paths import EVERY_LINE, NOT_41
from harness.processes import other_executor
from harness.spark_process import BOTH_EXECUTORS, TWO_EXECUTORS, Job

MAPS, PARTITIONS = 6, 8
SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.minTaskRuntime": "100ms",
}


def speculative_job(daemon, cluster, gates) -> Job:
    conf = {**SPECULATION, "spark.lodestone.services": daemon.host_port}
    return Job("two_attempts_of_a_map", {"gates": gates.address}, cluster.master, conf)


def test_a_slow_task_and_its_copy_are_read_once(
    start_daemon, start_job, two_hosts, gates, plain_answer
):
    job = speculative_job(start_daemon(), two_hosts, gates)
    running = start_job(job)
    gates.wait_reached("map-0-0")
    gates.wait_reached("map-0-1")
    gates.open("map-0-1")
    gates.open("map-0-0")
    outcome = running.wait()
    assert outcome.answer == plain_answer(job)
    totals = outcome.report["totals"]
    # A reduce task that was slow may have had a copy too, which read its blocks once more.
    assert totals["mergedBlocksRead"] + totals["originalsRead"] >= MAPS * PARTITIONS
    assert totals["mergedBlocksRead"] >= (MAPS - 1) * PARTITIONS


def test_a_copy_that_wins_while_the_slow_task_is_killed_is_read_merged(
    start_daemon, start_job, two_hosts, gates, plain_answer
):
    job = speculative_job(start_daemon(), two_hosts, gates)
    running = start_job(job)
    gates.open("map-0-1")
    outcome = running.wait()
    assert outcome.answer == plain_answer(job)
    assert outcome.report["totals"]["mergedBlocksRead"] >= MAPS * PARTITIONS
    assert outcome.report["totals"]["originalsRead"] == 0


@pytest.mark.lines(*EVERY_LINE, seldom=NOT_41)
def test_a_stage_that_gives_other_rows_when_it_is_repeated_is_merged_again(
    spark, start_daemon, start_job, gates, plain_answer
):
    daemon = start_daemon()
    conf = {**BOTH_EXECUTORS, "spark.lodestone.services": daemon.host_port}
    job = Job("reshuffled_at_random", {"gates": gates.address}, TWO_EXECUTORS, conf)
    running = start_job(job)
    for index in range(8):
        if index != 5:
            gates.open(f"reread-{index}")
    reader = gates.wait_reached("reread-5")
    # The reader keeps its executor busy: this one knows where all blocks are, and could read them
    # merged.
    os.kill(other_executor(running.process.pid, reader), signal.SIGKILL)
    wait_until(lambda: gates.arrivals("reread-5") > 1, "the task is repeated", 120)
    gates.open("reread-5")
    outcome = running.wait()
    assert outcome.answer == plain_answer(job)
    assert outcome.report["totals"]["mergedBlocksRead"] > 0
    (scattered,) = [one for one in outcome.report["shuffles"] if one["partitions"] == 8]
    first = 0 if spark.startswith(("4.2", "4.3")) else 1
    assert scattered["generation"] > first
