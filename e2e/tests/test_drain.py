# SPDX-License-Identifier: Apache-2.0
"""An operator drains a service under a job: nothing is lost, and nothing is run again."""

import pytest

from harness.daemon import services_of
from harness.paths import NOT_41
from harness.spark_process import IN_THE_DRIVER, TWO_EXECUTORS, Job

MAPS, PARTITIONS = 6, 16


def keyed_rows(gates, daemons, master=IN_THE_DRIVER, **conf) -> Job:
    arguments = {"maps": MAPS, "partitions": PARTITIONS, "passes": 2, "gates": gates.address}
    remote = {
        "spark.lodestone.mode": "remote",
        "spark.lodestone.services": services_of(daemons),
        # A driver learns of a drain when it renews its lease.
        "spark.lodestone.lease.ttl": "10s",
    }
    return Job("keyed_rows", arguments, master, {**remote, **conf})


@pytest.mark.lines("3.5", "4.1", seldom=NOT_41)
def test_a_service_that_is_drained_under_a_job_ends_with_its_shuffles_and_costs_no_map_run(
    start_daemon, start_job, gates, plain_answer
):
    daemons = [start_daemon(f"service{i}") for i in range(2)]
    job = keyed_rows(gates, daemons)
    running = start_job(job)
    gates.run_maps(2)
    gates.wait_reached("map-2")
    gates.wait_reached("map-3")
    drain = daemons[0].drain()
    assert "takes nothing new" in drain.stdout.readline()
    gates.open_all()
    outcome = running.wait()
    assert outcome.answer == plain_answer(job)
    assert gates.map_runs(MAPS) == [1] * MAPS
    assert outcome.report["totals"]["remote"] == 1
    assert outcome.report["totals"]["originalsRead"] == 0
    assert drain.wait(30) == 0, drain.stderr.read()
    assert daemons[0].process.wait(30) == 0
    assert not list(daemons[0].directory.rglob("*.data"))


@pytest.mark.lines("4.1")
def test_with_two_replicas_a_drained_service_ends_while_its_shuffles_are_still_needed(
    start_daemon, start_job, gates, plain_answer
):
    daemons = [start_daemon(f"service{i}") for i in range(3)]
    job = keyed_rows(gates, daemons, **{"spark.lodestone.replicas": "2"})
    running = start_job(job)
    gates.run_maps(MAPS)
    gates.open_all(but=("between-0",))
    gates.wait_reached("between-0")
    drain = daemons[0].drain()
    # The job waits at a gate: it will read all of it once more.
    assert drain.wait(60) == 0, drain.stderr.read()
    assert daemons[0].process.wait(30) == 0
    gates.open_all()
    outcome = running.wait()
    assert outcome.answer == plain_answer(job)
    assert gates.map_runs(MAPS) == [1] * MAPS
    assert outcome.report["totals"]["originalsRead"] == 0


@pytest.mark.lines("4.1")
def test_when_the_only_service_is_drained_the_next_maps_keep_their_outputs(
    start_daemon, start_job, gates, plain_answer
):
    daemon = start_daemon()
    # Each executor reads what the other one keeps.
    job = keyed_rows(gates, [daemon], TWO_EXECUTORS)
    running = start_job(job)
    gates.run_maps(2)
    gates.wait_reached("map-2")
    gates.wait_reached("map-3")
    drain = daemon.drain()
    assert "takes nothing new" in drain.stdout.readline()
    gates.open_all()
    outcome = running.wait()
    assert outcome.answer == plain_answer(job)
    # Pushed blocks are read from the service, and the rest from the executors.
    totals = outcome.report["totals"]
    assert totals["mergedBlocksRead"] > 0 and totals["originalsRead"] > 0, totals
    assert gates.map_runs(MAPS)[:2] == [1] * 2
    assert drain.wait(30) == 0, drain.stderr.read()
