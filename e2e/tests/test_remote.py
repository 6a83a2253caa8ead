# SPDX-License-Identifier: Apache-2.0
"""Executors keep no shuffle data. Tests kill them, and services, at the worst moments, and the
answer is plain Spark's.

Maps and readers wait at gates, so that the fault comes at the same moment every time. Where
executors are killed there are two, with one core each.
"""

import os
import signal

import pytest

from chaos.mischief import flip
from harness.daemon import services_of, wait_until
from harness.paths import EVERY_LINE, NOT_41, SELDOM
from harness.processes import executors_of
from harness.spark_process import IN_THE_DRIVER, TWO_EXECUTORS, Job

MAPS, PARTITIONS = 6, 16
REMOTE = {
    "spark.lodestone.mode": "remote",
    # Clients wait six times as long for the only replica.
    "spark.lodestone.request.timeout": "1s",
}


def remote(name, arguments, services, master=IN_THE_DRIVER, **conf) -> Job:
    settings = {**REMOTE, "spark.lodestone.services": services, **conf}
    return Job(name, arguments, master, settings)


def keyed_rows(gates, services, master=IN_THE_DRIVER, **conf) -> Job:
    arguments = {"maps": MAPS, "partitions": PARTITIONS, "passes": 2, "gates": gates.address}
    return remote("keyed_rows", arguments, services, master, **conf)


def shuffle_files(running) -> list[str]:
    """Returns the shuffle files on the disks of executors."""
    names = (path.name for path in running.local_dirs.rglob("*"))
    return [name for name in names if name.startswith(("shuffle_", "temp_shuffle_"))]


@pytest.fixture
def finish(gates, plain_answer):
    """Opens all gates, waits for the end of a job, and compares its answer with plain Spark's."""

    def to_the_end(running, job):
        gates.open_all()
        outcome = running.wait()
        assert outcome.answer == plain_answer(job)
        return outcome

    return to_the_end


@pytest.mark.lines(*EVERY_LINE, seldom=SELDOM)
def test_every_release_shuffles_through_services_alone(start_daemon, start_job, plain_answer):
    services = ",".join(start_daemon(f"service{i}").host_port for i in range(2))
    jobs = [
        ("keyed_rows", {"maps": MAPS, "partitions": PARTITIONS}),
        ("sql_aggregate", {"partitions": 40}),
        ("word_count", {}),
    ]
    job = remote("one_after_another", {"jobs": jobs}, services, TWO_EXECUTORS)
    running = start_job(job)
    outcome = running.wait()
    assert outcome.answer == plain_answer(job)
    totals = outcome.report["totals"]
    assert totals["remote"] == totals["shuffles"] >= 3
    assert totals["originalsRead"] == 0
    assert all(shuffle["mergedBlocksRead"] > 0 for shuffle in outcome.report["shuffles"])
    assert outcome.reasons() == {}
    assert shuffle_files(running) == []


def test_an_executor_that_is_killed_between_two_stages_costs_no_map_run(
    start_daemon, start_job, gates, finish
):
    job = keyed_rows(gates, start_daemon().host_port, TWO_EXECUTORS)
    running = start_job(job)
    gates.run_first_pass(MAPS)
    assert shuffle_files(running) == []
    os.kill(executors_of(running.process.pid)[0], signal.SIGKILL)
    finish(running, job)
    assert gates.map_runs(MAPS) == [1] * MAPS


@pytest.mark.lines("4.1")
def test_an_executor_that_is_killed_while_others_still_map_costs_no_finished_map(
    start_daemon, start_job, gates, finish
):
    daemon = start_daemon()
    job = keyed_rows(gates, daemon.host_port, TWO_EXECUTORS)
    running = start_job(job)
    gates.run_maps(4)
    gates.wait_reached("map-4")
    gates.wait_reached("map-5")
    # Both executors are at their last map: one of these is run again, and none of the finished
    # ones.
    os.kill(executors_of(running.process.pid)[0], signal.SIGKILL)
    finish(running, job)
    assert gates.map_runs(MAPS)[:4] == [1] * 4
    assert sorted(gates.map_runs(MAPS)[4:]) == [1, 2]


@pytest.mark.lines("3.5", "4.1", "4.3", seldom=NOT_41)
def test_dynamic_allocation_releases_every_executor_between_two_stages(
    start_daemon, start_job, gates, finish
):
    conf = {
        "spark.dynamicAllocation.enabled": "true",
        "spark.dynamicAllocation.minExecutors": "0",
        "spark.dynamicAllocation.maxExecutors": "2",
        "spark.dynamicAllocation.executorIdleTimeout": "1s",
    }
    job = keyed_rows(gates, start_daemon().host_port, TWO_EXECUTORS, **conf)
    running = start_job(job)
    gates.run_maps(MAPS)
    gates.open_all(but=("between-0",))
    gates.wait_reached("between-0")
    wait_until(lambda: not executors_of(running.process.pid), "the end of every executor")
    finish(running, job)
    assert gates.map_runs(MAPS) == [1] * MAPS


@pytest.mark.seldom
@pytest.mark.lines("4.1")
def test_ten_thousand_partitions_need_no_more_than_half_a_gigabyte_of_an_executor(
    start_daemon, start_job, plain_answer
):
    arguments = {"maps": 4, "partitions": 10000, "rows": 80000, "tasks": 8}
    master, memory = "local-cluster[2,1,512]", {"spark.executor.memory": "512m"}
    job = remote("keyed_rows", arguments, start_daemon().host_port, master, **memory)
    running = start_job(job)
    outcome = running.wait()
    assert outcome.answer == plain_answer(job)
    assert outcome.report["totals"]["remote"] == 1
    assert shuffle_files(running) == []


@pytest.mark.lines("4.1")
def test_a_service_that_is_killed_costs_one_run_of_the_maps(start_daemon, start_job, gates, finish):
    daemons = [start_daemon(f"service{i}") for i in range(2)]
    job = keyed_rows(gates, services_of(daemons), TWO_EXECUTORS)
    running = start_job(job)
    gates.run_first_pass(MAPS)
    daemons[0].kill()
    finish(running, job)
    assert gates.map_runs(MAPS) == [2] * MAPS


@pytest.mark.lines("4.1")
def test_the_only_service_is_killed_and_started_again_and_the_maps_are_run_once_more(
    start_daemon, start_job, gates, finish
):
    daemon = start_daemon()
    job = keyed_rows(gates, daemon.host_port)
    running = start_job(job)
    gates.run_first_pass(MAPS)
    daemon.restart()
    outcome = finish(running, job)
    assert gates.map_runs(MAPS) == [2] * MAPS
    assert outcome.report["totals"]["remote"] == 1


@pytest.mark.lines("4.1")
def test_a_service_that_is_stopped_and_started_again_between_stages_costs_nothing(
    start_daemon, start_job, gates, finish
):
    daemons = [start_daemon(f"service{i}") for i in range(2)]
    job = keyed_rows(gates, services_of(daemons))
    running = start_job(job)
    gates.run_first_pass(MAPS)
    for daemon in daemons:
        daemon.restart_in_order()
    outcome = finish(running, job)
    assert gates.map_runs(MAPS) == [1] * MAPS
    assert outcome.reasons() == {}


def test_a_rolling_restart_while_maps_push_costs_nothing(start_daemon, start_job, gates, finish):
    daemons = [start_daemon(f"service{i}") for i in range(2)]
    job = keyed_rows(gates, services_of(daemons))
    running = start_job(job)
    for done, daemon in zip((2, 4), daemons, strict=True):
        gates.run_maps(done) if done == 2 else gates.open("map-2", "map-3")
        gates.wait_reached(f"map-{done}")
        gates.wait_reached(f"map-{done + 1}")
        daemon.restart_in_order()
    outcome = finish(running, job)
    assert gates.map_runs(MAPS) == [1] * MAPS
    assert outcome.reasons() == {}


@pytest.mark.lines("4.1")
def test_a_service_that_is_restarted_again_and_again_loses_nothing(
    start_daemon, start_job, plain_answer
):
    daemon = start_daemon(memory="32MiB")
    arguments = {"maps": 60, "partitions": PARTITIONS, "rows": 240000, "value_bytes": 400}
    job = remote("keyed_rows", arguments, daemon.host_port)
    running = start_job(job)
    running.wait_until(lambda: daemon.status()["segments"] > 0, "the first push")
    restarts = 0
    while running.runs():
        # When the job has just ended there is nothing to take over.
        assert daemon.stop() == 0
        daemon.start()
        restarts += 1
        wait_until(
            lambda: not running.runs() or daemon.status()["connections"] > 0,
            "a connection after the restart",
        )
    outcome = running.wait()
    assert outcome.answer == plain_answer(job)
    assert restarts >= 3
    assert outcome.reasons() == {}
    assert outcome.report["totals"]["remote"] == 1
    assert outcome.report["totals"]["originalsRead"] == 0


@pytest.mark.lines("4.1")
def test_with_two_replicas_a_service_that_is_killed_costs_no_run(
    start_daemon, start_job, gates, finish
):
    daemons = [start_daemon(f"service{i}") for i in range(2)]
    services = services_of(daemons)
    job = keyed_rows(gates, services, **{"spark.lodestone.replicas": "2"})
    running = start_job(job)
    gates.run_first_pass(MAPS)
    daemons[0].kill()
    finish(running, job)
    assert gates.map_runs(MAPS) == [1] * MAPS


@pytest.mark.lines("4.1")
@pytest.mark.parametrize("zones", ["aabb", "aab"])
def test_a_zone_whose_services_are_all_killed_has_no_partition_to_itself(
    zones, start_daemon, start_job, gates, finish
):
    daemons = [start_daemon(f"{i}", extra=("--zone", zone)) for i, zone in enumerate(zones)]
    # So many that the shuffle has use for all services.
    arguments = {"maps": MAPS, "partitions": 40, "passes": 2, "gates": gates.address}
    replicas = {"spark.lodestone.replicas": "2"}
    job = remote("keyed_rows", arguments, services_of(daemons), IN_THE_DRIVER, **replicas)
    running = start_job(job)
    gates.run_first_pass(MAPS)
    for daemon, zone in zip(daemons, zones, strict=True):
        if zone == "a":
            daemon.kill()
    outcome = finish(running, job)
    assert gates.map_runs(MAPS) == [1] * MAPS
    assert "REPLICAS_IN_ONE_ZONE" not in outcome.reasons()


@pytest.mark.lines("4.1")
def test_a_service_that_is_killed_while_maps_push_to_it_costs_no_row(
    start_daemon, start_job, gates, finish
):
    daemons = [start_daemon(f"service{i}") for i in range(2)]
    job = keyed_rows(gates, services_of(daemons))
    running = start_job(job)
    gates.run_maps(2)
    gates.wait_reached("map-2")
    gates.wait_reached("map-3")
    daemons[1].kill()
    finish(running, job)


@pytest.mark.lines("4.1")
def test_a_frozen_service_is_waited_for(start_daemon, start_job, gates, finish):
    daemon = start_daemon()
    job = keyed_rows(gates, daemon.host_port)
    running = start_job(job)
    gates.run_first_pass(MAPS)
    daemon.pause_for(3)
    finish(running, job)
    assert gates.map_runs(MAPS) == [1] * MAPS


@pytest.mark.lines("4.1")
@pytest.mark.parametrize(
    ("replicas", "damaged", "runs", "reasons"),
    [
        (1, 1, 2, {"CHUNK_CHECKSUM_MISMATCH"}),
        (2, 1, 1, set()),
        # Neither service is used for the second run.
        (2, 2, 2, {"CHUNK_CHECKSUM_MISMATCH", "NO_SERVICE"}),
    ],
)
def test_bytes_that_were_damaged_on_a_services_disk_are_in_no_answer(
    replicas, damaged, runs, reasons, start_daemon, start_job, gates, finish
):
    daemons = [start_daemon(f"service{i}") for i in range(2)]
    services = services_of(daemons)
    conf = {"spark.lodestone.replicas": str(replicas)}
    job = keyed_rows(gates, services, TWO_EXECUTORS, **conf)
    running = start_job(job)
    gates.run_first_pass(MAPS)
    for daemon in daemons[:damaged]:
        assert daemon.stop() == 0
        files = [path for path in daemon.directory.rglob("*.data") if path.stat().st_size]
        assert files, "a stop writes all out"
        for path in files:
            for at in range(0, path.stat().st_size, 50):
                flip(path, at)
        daemon.start()
    outcome = finish(running, job)
    assert gates.map_runs(MAPS) == [runs] * MAPS
    assert set(outcome.reasons()) == reasons


@pytest.mark.lines("4.1")
def test_segments_that_a_full_service_refuses_go_to_another_one(
    start_daemon, start_job, plain_answer, small_disk
):
    small = start_daemon(directory=small_disk / "service", memory="32MiB", reserve="auto")
    large = start_daemon("large")
    arguments = {"maps": MAPS, "partitions": PARTITIONS, "rows": 120000, "value_bytes": 1600}
    services = f"{small.host_port},{large.host_port}"
    job = remote("keyed_rows", arguments, services, **{"spark.shuffle.compress": "false"})
    outcome = start_job(job).wait()
    assert outcome.answer == plain_answer(job)
    assert outcome.report["totals"]["remote"] == 1
    assert outcome.report["totals"]["originalsRead"] == 0


@pytest.mark.lines("4.1")
@pytest.mark.parametrize("thaws", [True, False])
def test_a_disk_that_hangs_costs_a_job_time_and_nothing_else(
    start_daemon, freezable_disk, start_job, plain_answer, thaws
):
    hanging = start_daemon(directory=freezable_disk.directory / "service", memory="32MiB")
    other = start_daemon("other")
    arguments = {"maps": MAPS, "partitions": PARTITIONS, "rows": 120000, "value_bytes": 1600}
    services = f"{hanging.host_port},{other.host_port}"
    job = remote("keyed_rows", arguments, services, **{"spark.shuffle.compress": "false"})
    running = start_job(job)
    running.wait_until(lambda: list(hanging.directory.rglob("*.data")), "the first write")
    freezable_disk.freeze()
    wait_until(lambda: hanging.status()["state"] == "disk failed", "that it is noticed")
    if thaws:
        freezable_disk.thaw()
        wait_until(lambda: hanging.status()["state"] == "serving", "that it is well again")
    outcome = running.wait()
    assert outcome.answer == plain_answer(job)
    assert outcome.report["totals"]["remote"] == 1
    assert outcome.report["totals"]["originalsRead"] == 0


@pytest.mark.lines("4.1")
def test_services_are_empty_again_when_the_application_has_ended(
    start_daemon, start_job, plain_answer
):
    daemon = start_daemon()
    job = remote("keyed_rows", {"maps": MAPS, "partitions": PARTITIONS}, daemon.host_port)
    outcome = start_job(job).wait()
    assert outcome.answer == plain_answer(job)
    wait_until(lambda: daemon.status()["shuffles"] == 0, "the shuffle's end")
    wait_until(lambda: not list(daemon.directory.rglob("*.data")), "the removal of its files")
