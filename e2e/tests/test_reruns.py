# SPDX-License-Identifier: Apache-2.0
"""Spark repeats the map tasks whose output it lost, and only those: readers take no merged block of
an attempt that was replaced.

The daemon also merges the blocks of the repeated map tasks. A task that reads before they are shown
takes originals.

Shuffle 0 of the job has 6 maps and 4 partitions, and each of its blocks is a chunk of its own. One
executor is lost while a task on the other has read the first row of a partition; the task reads the
rest when the lost maps have been repeated.
"""

import os
import signal

import pytest

from harness.paths import NOT_41, SELDOM
from harness.processes import other_executor
from harness.spark_process import BOTH_EXECUTORS, TWO_EXECUTORS, Job

MAPS, PARTITIONS = 6, 4
CHECKSUM = "spark.sql.shuffle.orderIndependentChecksum"


@pytest.fixture
def lose_an_executor(start_daemon, start_job, gates, plain_answer):
    """Runs the job with this fault, and checks that the answer is right."""

    def lose(**arguments):
        conf = {
            **BOTH_EXECUTORS,
            "spark.lodestone.services": start_daemon().host_port,
            "spark.lodestone.push.maxBlockSize": "4m",
            "spark.reducer.maxSizeInFlight": "1m",
            "spark.shuffle.compress": "false",
            # Spark repeats only lost outputs. It repeats all readers of them only if the outputs
            # differ.
            f"{CHECKSUM}.enabled": "true",
            f"{CHECKSUM}.enableFullRetryOnMismatch": "true",
        }
        arguments["gates"] = gates.address
        job = Job("repeated_in_part", arguments, TWO_EXECUTORS, conf)
        running = start_job(job)
        gates.open_all(but=("first-3",))
        reader = gates.wait_reached("first-3")
        os.kill(other_executor(running.process.pid, reader), signal.SIGKILL)
        gates.wait_reached("again-3")
        gates.open("first-3")
        outcome = running.wait()
        assert outcome.answer == plain_answer(job)
        return outcome

    return lose


def assert_each_block_is_read(shuffle, lost, rereading):
    """Checks that blocks of repeated maps come from the new attempt, merged or not, and all others
    are read merged."""
    originals = shuffle["originalsRead"]
    assert originals <= lost * rereading
    # They replace blocks of the old attempt, which the daemon has as well.
    assert shuffle["reasons"].get("ATTEMPT_NOT_ACCEPTED", 0) == originals
    assert shuffle["mergedBlocksRead"] >= MAPS * rereading - originals


@pytest.mark.lines("3.5", "4.1", "4.2", "4.3", seldom=NOT_41)
def test_repeated_maps_that_give_the_same_rows_leave_the_rest_merged(lose_an_executor):
    outcome = lose_an_executor()
    (_, lost), (again, rereading), _ = outcome.stages
    assert 0 < lost < MAPS, "only lost maps are repeated"
    assert again == 1
    first, second = outcome.report["shuffles"]
    assert (first["generation"], second["generation"]) == (0, 0)
    assert_each_block_is_read(first, lost, rereading)


@pytest.mark.lines("4.2", "4.3", seldom=SELDOM)
def test_repeated_maps_that_give_other_rows_repeat_the_tasks_that_read_them(lose_an_executor):
    outcome = lose_an_executor(fickle=True)
    (_, lost), (again, rereading), _ = outcome.stages
    assert 0 < lost < MAPS, "only lost maps are repeated"
    assert (again, rereading) == (1, PARTITIONS)
    first, second = outcome.report["shuffles"]
    assert (first["generation"], second["generation"]) == (0, 1)
    assert_each_block_is_read(first, lost, PARTITIONS)
