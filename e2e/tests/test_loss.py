# SPDX-License-Identifier: Apache-2.0
"""A cluster loses executors, tasks and one service of several while a job runs. The answer stays
right, and merged blocks are used.

The blocks of the maps 0 and 1 are too large to be merged. Each of two executors with one core runs
one of these, and two of the others, so that a reader needs merged blocks of both, and originals of
both.
"""

import os
import signal

import pytest

from harness.daemon import services_of, wait_until
from harness.processes import executors_of
from harness.spark_process import TWO_EXECUTORS, Job

MAPS, PARTITIONS = 6, 16
WIDE = [0, 1]
MERGED = (MAPS - len(WIDE)) * PARTITIONS
ORIGINAL = len(WIDE) * PARTITIONS
TOO_LARGE = {
    "spark.shuffle.compress": "false",
    "spark.lodestone.push.maxBlockSize": "100k",
}
DECOMMISSION = {
    "spark.decommission.enabled": "true",
    "spark.storage.decommission.enabled": "true",
    "spark.storage.decommission.shuffleBlocks.enabled": "true",
    "spark.storage.decommission.replicationReattemptInterval": "1s",
}
ENCODED = {"name": "keyed_table", "spark.shuffle.compress": "true"}
GIVEN_AWAY = {
    "records": {},
    "encoded rows": ENCODED,
    "encrypted encoded rows": ENCODED | {"spark.io.encryption.enabled": "true"},
}


def read_twice(gates, services, master=TWO_EXECUTORS, name="keyed_rows", **conf) -> Job:
    arguments = {"maps": MAPS, "partitions": PARTITIONS, "wide": WIDE, "passes": 2}
    settings = {**TOO_LARGE, "spark.lodestone.services": services, **conf}
    return Job(name, {**arguments, "gates": gates.address}, master, settings)


def assert_both_passes_read_all_but_the_large_merged(outcome):
    totals = outcome.report["totals"]
    assert totals["mergedBlocksRead"] == 2 * MERGED, outcome.reasons()
    assert totals["originalsRead"] == 2 * ORIGINAL
    assert outcome.reasons() == {"BLOCK_TOO_LARGE": ORIGINAL}


def still_good(outcome, maps: int) -> int:
    """Returns the number of blocks that were read merged, plus those of so many maps in partitions
    that a task read in place although they were merged."""
    in_place = outcome.reasons().get("LOCAL_MAP_READ", 0)
    return outcome.report["totals"]["mergedBlocksRead"] + in_place * maps // MAPS


def test_maps_of_a_killed_executor_are_run_again_and_read(
    start_daemon, start_job, gates, plain_answer
):
    job = read_twice(gates, start_daemon().host_port)
    running = start_job(job)
    gates.run_first_pass(MAPS)
    os.kill(executors_of(running.process.pid)[0], signal.SIGKILL)
    gates.open_all()
    outcome = running.wait()
    assert outcome.answer == plain_answer(job)
    assert sorted(gates.map_runs(MAPS)) == [1, 1, 1, 2, 2, 2]
    # The merged blocks of the other executor's two small maps are still good: a reader takes them
    # or, on the same host, their originals.
    assert still_good(outcome, maps=2) >= MERGED + 2 * PARTITIONS, outcome.report["totals"]


@pytest.fixture
def start_external(service_on_each_host, start_job, two_hosts, gates):
    """Starts a job with external shuffle services, and kills one of two executors when all is read
    once."""

    def start():
        services = services_of(service_on_each_host)
        port = str(service_on_each_host[0].port)
        external = {"spark.shuffle.service.enabled": "true", "spark.shuffle.service.port": port}
        job = read_twice(gates, services, two_hosts.master, **external)
        running = start_job(job)
        gates.run_first_pass(MAPS)
        os.kill(two_hosts.executors()[0], signal.SIGKILL)
        return job, running

    return start


def test_blocks_of_a_killed_executor_are_read_from_the_daemon_that_is_its_external_shuffle_service(
    start_external, gates, plain_answer
):
    job, running = start_external()
    gates.open_all()
    outcome = running.wait()
    assert outcome.answer == plain_answer(job)
    assert gates.map_runs(MAPS) == [1] * MAPS
    assert_both_passes_read_all_but_the_large_merged(outcome)


def test_blocks_of_a_killed_executor_are_read_from_its_external_shuffle_service_after_a_restart(
    start_external, service_on_each_host, gates, plain_answer
):
    job, running = start_external()
    for daemon in service_on_each_host:
        daemon.restart()
    gates.open_all()
    outcome = running.wait()
    assert outcome.answer == plain_answer(job)
    assert gates.map_runs(MAPS) == [1] * MAPS
    totals = outcome.report["totals"]
    assert totals["mergedBlocksRead"] == MERGED, "the first pass"
    assert totals["originalsRead"] == ORIGINAL + MAPS * PARTITIONS
    assert "FETCH_SERVICE_RESTARTED" in outcome.reasons()


@pytest.mark.parametrize("kind", ["records", "encoded rows", "encrypted encoded rows"])
def test_blocks_that_a_decommissioned_executor_gave_away_are_found(
    start_daemon, start_job, gates, plain_answer, kind
):
    job = read_twice(gates, start_daemon().host_port, **DECOMMISSION, **GIVEN_AWAY[kind])
    running = start_job(job)
    # The first two maps run on different executors, so that one of both gives a large output away.
    gates.run_first_pass(MAPS)
    leaving = executors_of(running.process.pid)[0]
    os.kill(leaving, signal.SIGPWR)
    wait_until(
        lambda: leaving not in executors_of(running.process.pid), "the executor's end", timeout_s=60
    )
    gates.open_all()
    outcome = running.wait()
    assert outcome.answer == plain_answer(job)
    assert gates.map_runs(MAPS) == [1] * MAPS
    # The remaining executor has all originals now. A task reads a few of them in place, in their
    # order.
    assert still_good(outcome, maps=MAPS - len(WIDE)) == 2 * MERGED, outcome.reasons()
    assert set(outcome.reasons()) == {"BLOCK_TOO_LARGE", "LOCAL_MAP_READ"}
    # No service has the large ones, and no map ran again: those given away are among these.
    totals = outcome.report["totals"]
    assert totals["originalsRead"] >= 2 * ORIGINAL
    is_encoded = kind != "records"
    (shuffle,) = outcome.report["shuffles"]
    assert (shuffle["format"] == "encoded-rows-1") == is_encoded
    assert (totals["encodedBytes"] > MAPS * PARTITIONS) == is_encoded


@pytest.mark.lines("4.1")
def test_blocks_that_one_of_two_services_merged_are_read_when_the_other_dies(
    start_daemon, start_job, gates, plain_answer
):
    daemons = [start_daemon(name) for name in ("one", "other")]
    services = services_of(daemons)
    arguments = {"maps": MAPS, "partitions": PARTITIONS, "gates": gates.address}
    job = Job("keyed_rows", arguments, conf={"spark.lodestone.services": services})
    running = start_job(job)
    last = f"map-{MAPS - 1}"
    gates.open_all(but=(last,))
    gates.wait_reached(last)
    half = PARTITIONS // 2
    for daemon in daemons:
        holds_segments(daemon, (MAPS - 1) * half)
    daemons[1].kill()
    gates.open_all()
    outcome = running.wait()
    assert outcome.answer == plain_answer(job)
    totals = outcome.report["totals"]
    assert totals["mergedBlocksRead"] == totals["originalsRead"] == MAPS * half
    assert {"LAYOUT_FAILED", "FETCH_SERVICE_SUSPECT"} & set(outcome.reasons())


@pytest.fixture
def start_pushing(start_daemon, start_job, gates):
    """Starts a job. Its maps 1 and 2 are committed and being pushed, to a daemon that does not
    answer, and 3 and 4 have begun."""

    def start(name):
        daemon = start_daemon()
        conf = {
            "spark.lodestone.services": daemon.host_port,
            # Longer than the fault of a test lasts.
            "spark.lodestone.request.timeout": "60s",
        }
        arguments = {"maps": MAPS, "partitions": PARTITIONS, "gates": gates.address}
        job = Job(name, arguments, TWO_EXECUTORS, conf)
        running = start_job(job)
        stop_among_pushes(daemon, gates)
        return daemon, job, running

    return start


def stop_among_pushes(daemon, gates):
    # When one map has ended the plan exists.
    gates.open("map-0")
    gates.wait_reached("map-2")
    holds_segments(daemon, PARTITIONS)
    daemon.pause()
    gates.open("map-1", "map-2")
    gates.wait_reached("map-3")
    gates.wait_reached("map-4")


def test_a_job_that_was_cancelled_while_it_pushed_leaves_nothing_in_the_way_of_the_next(
    start_pushing, gates, plain_answer
):
    daemon, job, running = start_pushing("repeated_after_cancel")
    gates.open("cancel")
    gates.wait_reached("cancelled")
    daemon.resume()
    gates.open_all()
    outcome = running.wait()
    assert outcome.answer == plain_answer(job)
    assert gates.map_runs(MAPS)[:5] == [1, 1, 1, 2, 2]
    assert outcome.report["totals"]["mergedBlocksRead"] == 2 * MAPS * PARTITIONS
    assert outcome.reasons() == {}


@pytest.mark.lines("4.1")
def test_an_executor_that_is_killed_while_it_pushes_costs_the_merged_blocks_of_its_maps_only(
    start_pushing, gates, plain_answer
):
    daemon, job, running = start_pushing("keyed_rows")
    os.kill(executors_of(running.process.pid)[0], signal.SIGKILL)
    daemon.resume()
    gates.open_all()
    outcome = running.wait()
    assert outcome.answer == plain_answer(job)
    # It had run the maps 0 and 2, or 1.
    assert still_good(outcome, maps=MAPS - 2) >= (MAPS - 2) * PARTITIONS, outcome.report
    assert outcome.report["totals"]["blocksPushed"] >= (MAPS - 2) * PARTITIONS


def holds_segments(daemon, at_least: int):
    wait_until(lambda: daemon.status()["segments"] >= at_least, f"{at_least} segments merged")
