# SPDX-License-Identifier: Apache-2.0
"""With nothing configured the plugin starts its own daemon: one per host, below the local
directories, which ends when no client needs it."""

import os
import signal

import pytest

from harness.daemon import wait_until
from harness.paths import NOT_41, USUAL_LINES
from harness.processes import daemons_below, executors_of, kill_tree
from harness.spark_process import ONE_EXECUTOR, TWO_EXECUTORS, Job

MAPS, PARTITIONS = 6, 8
on_one_line = pytest.mark.lines(*USUAL_LINES, seldom=NOT_41)


def embedded_job(gates=None, idle="2s") -> Job:
    arguments = {"maps": MAPS, "partitions": PARTITIONS}
    if gates:
        arguments["gates"] = gates.address
    conf = {"spark.lodestone.embedded.idleTimeout": idle}
    return Job("keyed_rows", arguments, TWO_EXECUTORS, conf)


def open_all(gates, but=()):
    names = (
        [f"map-{i}" for i in range(MAPS)]
        + [f"reduce-{i}" for i in range(PARTITIONS)]
        + ["between-0"]
    )
    for name in names:
        if name not in but:
            gates.open(name)


@pytest.mark.lines(*USUAL_LINES)
def test_two_executors_of_a_host_share_one_daemon_below_their_local_directories(
    start_job, gates, plain_answer
):
    job = embedded_job(gates)
    running = start_job(job)
    open_all(gates, but=["reduce-0"])
    gates.wait_reached("reduce-0")
    assert len(executors_of(running.process.pid)) == 2
    assert len(daemons_below(running.local_dirs)) == 1
    gates.open("reduce-0")
    outcome = running.wait()
    assert outcome.answer == plain_answer(job)
    assert outcome.report["totals"]["mergedBlocksRead"] == MAPS * PARTITIONS
    assert outcome.reasons() == {}


@on_one_line
def test_the_daemon_goes_away_after_its_idle_time_and_leaves_no_file(start_job, plain_answer):
    running = start_job(embedded_job())
    running.wait()
    wait_until(lambda: not daemons_below(running.local_dirs), "the daemon's end")
    left = [
        path for path in running.local_dirs.rglob("*") if path.is_file() and path.suffix == ".data"
    ]
    assert left == []


@on_one_line
def test_no_daemon_outlives_an_application_that_was_killed(start_job, gates):
    running = start_job(embedded_job(gates))
    open_all(gates, but=["reduce-0"])
    gates.wait_reached("reduce-0")
    (daemon,) = daemons_below(running.local_dirs)
    kill_tree(running.process.pid)
    wait_until(lambda: daemon not in daemons_below(running.local_dirs), "the daemon's end")


@on_one_line
def test_a_daemon_that_was_killed_is_started_again_while_the_application_runs(
    start_job, gates, plain_answer
):
    job = Job("shuffles_in_a_row", {"gates": gates.address, "turns": 4}, ONE_EXECUTOR)
    running = start_job(job)
    gates.wait_reached("turn-0")
    (killed,) = daemons_below(running.local_dirs)
    os.kill(killed, signal.SIGKILL)
    for turn in range(3):
        gates.open(f"turn-{turn}")
    gates.wait_reached("turn-3")
    (started,) = daemons_below(running.local_dirs)
    gates.open("turn-3")
    outcome = running.wait()
    assert started != killed
    assert outcome.answer == plain_answer(job)
    assert outcome.report["totals"]["merged"] >= 2


@on_one_line
def test_a_killed_executor_does_not_take_the_daemon_and_its_merged_blocks_along(
    start_job, gates, plain_answer
):
    job = embedded_job(gates, idle="10min")
    running = start_job(job)
    open_all(gates, but=["reduce-0"])
    gates.wait_reached("reduce-0")
    (before,) = daemons_below(running.local_dirs)
    os.kill(executors_of(running.process.pid)[0], signal.SIGKILL)
    gates.open("reduce-0")
    try:
        outcome = running.wait()
    finally:
        after = daemons_below(running.local_dirs)
        for daemon in after:
            os.kill(daemon, signal.SIGTERM)
    assert outcome.answer == plain_answer(job)
    assert after == [before]
