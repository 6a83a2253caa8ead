# SPDX-License-Identifier: Apache-2.0
"""If the daemon fails, the job ends with plain Spark's answer, and the report has the reason.

Each job has 6 maps and 8 partitions; its tasks wait at gates, so that the fault comes at the same
moment every time.
"""

import os

import pytest

from harness.daemon import free_port, wait_until
from harness.paths import EVERY_LINE, NOT_35
from harness.spark_process import TWO_EXECUTORS, Job

MAPS = 6
PARTITIONS = 8


def keyed_rows(gates=None, services=None, passes=1, **conf) -> Job:
    arguments = {"maps": MAPS, "partitions": PARTITIONS, "passes": passes}
    if gates:
        arguments["gates"] = gates.address
    settings = {"spark.lodestone." + key.replace("_", "."): value for key, value in conf.items()}
    if services:
        settings["spark.lodestone.services"] = services
    return Job("keyed_rows", arguments, conf=settings)


def open_all(gates, *prefixes, but=()):
    names = {"map": range(MAPS), "reduce": range(PARTITIONS), "between": range(2)}
    for prefix in prefixes or names:
        for index in names[prefix]:
            if f"{prefix}-{index}" not in but:
                gates.open(f"{prefix}-{index}")


def segments(daemon, at_least: int):
    """Waits until the daemon holds so many segments."""
    wait_until(lambda: daemon.status()["segments"] >= at_least, f"{at_least} segments merged")


def test_a_healthy_daemon_serves_every_block_merged(start_daemon, start_job, plain_answer):
    daemon = start_daemon()
    job = keyed_rows(services=daemon.host_port)
    outcome = start_job(job).wait()
    assert outcome.answer == plain_answer(job)
    assert outcome.reasons() == {}
    totals = outcome.report["totals"]
    assert totals["blocksPushed"] == MAPS * PARTITIONS
    assert totals["mergedBlocksRead"] == MAPS * PARTITIONS
    assert totals["originalsRead"] == 0


def test_a_job_without_any_daemon_runs_as_plain_spark(start_job, plain_answer):
    job = keyed_rows(services=f"127.0.0.1:{free_port()}")
    outcome = start_job(job).wait()
    assert outcome.answer == plain_answer(job)
    assert "NO_SERVICE" in outcome.reasons()


def test_a_daemon_that_dies_while_maps_run_costs_no_row(
    start_daemon, start_job, gates, plain_answer
):
    daemon = start_daemon()
    job = keyed_rows(gates, services=daemon.host_port)
    running = start_job(job)
    open_all(gates, "map", but=["map-4"])
    gates.wait_reached("map-4")
    segments(daemon, PARTITIONS)
    daemon.kill()
    open_all(gates)
    outcome = running.wait()
    assert outcome.answer == plain_answer(job)
    gone = {"PUSH_CONNECTION_FAILED", "LAYOUT_FAILED", "FETCH_SERVICE_SUSPECT"}
    assert gone & set(outcome.reasons())
    assert outcome.report["totals"]["mergedBlocksRead"] == 0


def test_a_daemon_that_dies_while_reducers_read_costs_no_row(
    start_daemon, start_job, gates, plain_answer
):
    daemon = start_daemon()
    job = keyed_rows(gates, services=daemon.host_port)
    running = start_job(job)
    open_all(gates, "map")
    gates.wait_reached("reduce-0")
    daemon.kill()
    open_all(gates)
    outcome = running.wait()
    assert outcome.answer == plain_answer(job)
    assert outcome.report["totals"]["mergedBlocksRead"] > 0
    assert outcome.report["totals"]["originalsRead"] > 0
    assert {"LAYOUT_FAILED", "CHUNK_FETCH_FAILED", "FETCH_SERVICE_SUSPECT"} & set(outcome.reasons())


@pytest.mark.lines(*EVERY_LINE, seldom=NOT_35)
def test_a_daemon_that_dies_in_the_middle_of_a_partition_costs_no_row(
    start_daemon, start_job, gates, plain_answer
):
    daemon = start_daemon()
    conf = {
        "spark.lodestone.services": daemon.host_port,
        "spark.lodestone.push.maxBlockSize": "4m",
        "spark.reducer.maxSizeInFlight": "1m",
    }
    # In one process the first reader would inform the second one that the daemon is gone.
    job = Job("read_in_pieces", {"gates": gates.address}, TWO_EXECUTORS, conf)
    running = start_job(job)
    gates.wait_reached("reading-0")
    gates.wait_reached("reading-1")
    daemon.kill()
    gates.open("reading-0")
    gates.open("reading-1")
    outcome = running.wait()
    assert outcome.answer == plain_answer(job)
    totals = outcome.report["totals"]
    assert totals["mergedBlocksRead"] > 0
    assert totals["originalsRead"] > 0
    assert totals["mergedBlocksRead"] + totals["originalsRead"] == 12 * 2
    assert outcome.reasons() == {"CHUNK_FETCH_FAILED": totals["originalsRead"]}


def test_a_daemon_restarted_between_two_reads_is_not_mistaken_for_the_old_one(
    start_daemon, start_job, gates, plain_answer
):
    daemon = start_daemon()
    job = keyed_rows(gates, services=daemon.host_port, passes=2)
    running = start_job(job)
    open_all(gates, "map", "reduce")
    gates.wait_reached("between-0")
    daemon.restart()
    open_all(gates)
    outcome = running.wait()
    assert outcome.answer == plain_answer(job)
    assert outcome.report["totals"]["mergedBlocksRead"] == MAPS * PARTITIONS, "the first pass"
    assert outcome.report["totals"]["originalsRead"] == MAPS * PARTITIONS, "the second pass"
    assert "FETCH_SERVICE_RESTARTED" in outcome.reasons()


def test_a_daemon_restarted_while_maps_run_is_not_mistaken_for_the_old_one(
    start_daemon, start_job, gates, plain_answer
):
    daemon = start_daemon()
    job = keyed_rows(gates, services=daemon.host_port)
    running = start_job(job)
    open_all(gates, "map", "reduce", but=["map-5"])
    gates.wait_reached("map-5")
    segments(daemon, (MAPS - 1) * PARTITIONS)
    daemon.restart()
    open_all(gates)
    outcome = running.wait()
    assert outcome.answer == plain_answer(job)
    assert outcome.report["totals"]["mergedBlocksRead"] == 0
    assert {"PUSH_SERVICE_RESTARTED", "FETCH_SERVICE_RESTARTED"} <= set(outcome.reasons())


def test_a_file_of_the_daemon_that_is_cut_costs_the_blocks_in_it_and_the_disk_is_blamed(
    start_daemon, start_job, gates, plain_answer
):
    # More data than fits into the daemon's memory. A partition is so large that it has a file of
    # its own, and small enough for one chunk.
    daemon = start_daemon(memory="32MiB")
    job = keyed_rows(gates, services=daemon.host_port, passes=2)
    job.arguments["value_bytes"] = 1300
    job.conf["spark.shuffle.compress"] = "false"
    running = start_job(job)
    open_all(gates, "map", "reduce")
    gates.wait_reached("between-0")
    os.truncate(min(daemon.directory.rglob("[0-9]*.data")), 1000)
    open_all(gates)
    outcome = running.wait()
    assert outcome.answer == plain_answer(job)
    assert outcome.report["totals"]["mergedBlocksRead"] == (2 * PARTITIONS - 1) * MAPS
    assert outcome.reasons() == {"FETCH_DISK_FAILED": MAPS}


@pytest.mark.parametrize("stage", ["map", "reduce"])
def test_a_daemon_frozen_for_ten_seconds_delays_the_job_by_seconds(
    stage, start_daemon, start_job, gates, plain_answer
):
    daemon = start_daemon()
    job = keyed_rows(gates, services=daemon.host_port, request_timeout="3s")
    running = start_job(job)
    if stage == "map":
        open_all(gates, "map", but=["map-4"])
        gates.wait_reached("map-4")
    else:
        open_all(gates, "map")
        gates.wait_reached("reduce-0")
    daemon.pause_for(10)
    open_all(gates)
    outcome = running.wait()
    assert outcome.answer == plain_answer(job)
    assert outcome.reasons(), "a frozen daemon leaves its mark in the report"


def test_a_daemon_with_a_full_disk_refuses_and_the_job_goes_on(
    start_daemon, start_job, plain_answer, small_disk
):
    daemon = start_daemon(directory=small_disk / "service", memory="32MiB", reserve="auto")
    arguments = {"maps": MAPS, "partitions": PARTITIONS, "rows": 240000, "value_bytes": 1600}
    job = Job("keyed_rows", arguments, conf={"spark.lodestone.services": daemon.host_port})
    outcome = start_job(job).wait()
    assert outcome.answer == plain_answer(job)
    assert "PUSH_DISK_FULL" in outcome.reasons()
    assert daemon.counts_by_code("merge_rejected")["DISK_FULL"] > 0, "an alert watches this"
