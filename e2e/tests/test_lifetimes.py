# SPDX-License-Identifier: Apache-2.0
"""A shuffle is kept as long as anything may read it, however often, and not longer."""

from pathlib import Path

import pytest

from harness.daemon import wait_until
from harness.processes import kill_tree
from harness.spark_process import Job

ADAPTIVE = {
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.adaptive.autoBroadcastJoinThreshold": "-1",
}
# A renewal and the daemon's look for expired leases come on top of it.
LEASE_S, LEASE_GRACE_S = 10, 20


@pytest.mark.lines("4.1")
def test_a_killed_application_leaves_only_foreign_files_after_its_lease(
    start_daemon, start_job, gates
):
    daemon = start_daemon(memory="32MiB")
    conf = {
        "spark.lodestone.services": daemon.host_port,
        "spark.lodestone.lease.ttl": f"{LEASE_S}s",
    }
    # More data than fits into the daemon's memory.
    sizes = {"partitions": 16, "rows": 240000, "value_bytes": 64}
    running = start_job(Job("keyed_rows", {"gates": gates.address, **sizes}, conf=conf))
    gates.open_all(but=("reduce-0",))
    gates.wait_reached("reduce-0")
    merged = merged_files(daemon)
    assert merged
    foreign = [daemon.directory / "foreign", merged[0].parent / "foreign.data"]
    for path in foreign:
        path.write_text("not the daemon's")
    kill_tree(running.process.pid)
    running.process.wait()
    wait_until(lambda: daemon.status()["shuffles"] == 0, "the lease's end", LEASE_S + LEASE_GRACE_S)
    wait_until(lambda: merged_files(daemon) == [], "the removal of its files")
    assert [path.read_text() for path in foreign] == ["not the daemon's"] * 2


def merged_files(daemon) -> list[Path]:
    """Returns the file that partitions share, and those of large ones, which have numbers as
    names."""
    files = daemon.directory.rglob("*.data")
    return [path for path in files if path.stem == "spill" or path.stem.isdigit()]


def test_an_exchange_that_two_branches_and_two_queries_use_is_merged_once_and_read_merged(
    start_daemon, start_job, plain_answer
):
    daemon = start_daemon()
    conf = {**ADAPTIVE, "spark.lodestone.services": daemon.host_port}
    job = Job("exchange_used_twice", {"maps": 6, "partitions": 16}, conf=conf)
    outcome = start_job(job).wait()
    assert outcome.answer == plain_answer(job)
    assert outcome.answer[-1]["reused"]
    (shuffle,) = outcome.report["shuffles"]
    assert shuffle["blocksPushed"] == 6 * 16
    assert shuffle["mergedBlocksRead"] == 2 * 2 * 6 * 16
    assert outcome.report["totals"]["originalsRead"] == 0


def test_a_shuffle_that_no_task_reads_delays_no_job_and_is_removed_with_its_query(
    start_daemon, start_job, gates, plain_answer
):
    daemon = start_daemon()
    conf = {**ADAPTIVE, "spark.lodestone.services": daemon.host_port}
    # Spark learns from the driver's garbage collection which shuffles are over.
    conf["spark.cleaner.periodicGC.interval"] = "1s"
    job = Job("dropped_side", {"gates": gates.address}, conf=conf)
    running = start_job(job)
    gates.wait_reached("answered")
    wait_until(lambda: daemon.status()["segments"] > 0, "the merge of the side that no task reads")
    assert daemon.status()["shuffles"] > 0
    gates.open("answered")
    gates.wait_reached("forgotten")
    wait_until(lambda: daemon.status()["shuffles"] == 0, "the removal of its shuffles")
    gates.open("forgotten")
    outcome = running.wait()
    assert outcome.answer == plain_answer(job)
    assert outcome.answer[-1]["empty"]
    totals = outcome.report["totals"]
    assert totals["blocksPushed"] > totals["mergedBlocksRead"] + totals["originalsRead"] == 0
