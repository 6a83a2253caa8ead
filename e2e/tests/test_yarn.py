# SPDX-License-Identifier: Apache-2.0
"""Lodestone on YARN. ResourceManager, NodeManagers and containers are real processes: each
NodeManager has a loopback address, and room for one executor."""

import re

import pytest

from harness.daemon import services_of, wait_until
from harness.hosts import Host
from harness.paths import NOT_41, USUAL_LINES
from harness.processes import daemons_below, descendants
from harness.spark_process import Job
from harness.yarn import Yarn, processes_at
from harness.yarn_job import YarnJob

MAPS, PARTITIONS = 6, 16
on_one_line = pytest.mark.lines(*USUAL_LINES, seldom=NOT_41)
# Far less than the minute after which a daemon without clients ends by itself.
END_TIMEOUT_S = 30
NO_IDLE_EXECUTORS = {
    "spark.dynamicAllocation.enabled": "true",
    "spark.dynamicAllocation.minExecutors": "0",
    "spark.dynamicAllocation.initialExecutors": "2",
    "spark.dynamicAllocation.maxExecutors": "2",
    "spark.dynamicAllocation.executorIdleTimeout": "1s",
}
REMOTE = {"spark.lodestone.mode": "remote"}
# The container of an executor is larger, and that of an application master smaller.
EXECUTOR_MB = 1000
# A host of no NodeManager.
ELSEWHERE = Host("127.0.0.4")


@pytest.fixture(scope="session")
def yarn(tmp_path_factory):
    """Starts a cluster for many tests."""
    cluster = Yarn(tmp_path_factory.mktemp("yarn") / "cluster")
    yield cluster
    cluster.stop()


@pytest.fixture
def submit(spark):
    """Submits jobs. One that still runs at the end of the test is killed, with its containers."""
    started = []

    def run(cluster: Yarn, job: Job, mode: str = "client") -> YarnJob:
        started.append(YarnJob(spark, cluster, job, mode))
        return started[-1]

    yield run
    for job in started:
        job.kill()


@pytest.fixture
def services(start_daemon, yarn):
    """Starts a service on the host of each NodeManager, and one elsewhere."""
    hosts = [node.host for node in yarn.nodes]
    return [start_daemon(f"at-{host.address}", host=host) for host in (*hosts, ELSEWHERE)]


def keyed_rows(gates=None, **conf) -> Job:
    arguments = {"maps": MAPS, "partitions": PARTITIONS}
    if gates:
        arguments |= {"gates": gates.address, "passes": 2}
    return Job("keyed_rows", arguments, conf=conf)


def assert_all_merged(outcome, passes: int = 1):
    totals = outcome.report["totals"]
    assert totals["originalsRead"] == 0
    assert totals["mergedBlocksRead"] == passes * MAPS * PARTITIONS
    assert outcome.reasons() == {}


def assert_nothing_is_left(cluster: Yarn, application: str):
    """Containers end with all that they started, and YARN removes the application's files."""
    wait_until(lambda: not processes_at(application), "the end of all processes", END_TIMEOUT_S)
    files = f"*/local/usercache/*/appcache/{application}"
    wait_until(lambda: not list(cluster.folder.glob(files)), "the end of all files", END_TIMEOUT_S)


@pytest.mark.seldom
@pytest.mark.parametrize("mode", ["client", "cluster"])
def test_with_nothing_configured_daemons_merge_below_their_containers_and_end_with_them(
    mode, yarn, submit, gates, plain_answer
):
    job = keyed_rows(gates)
    running = submit(yarn, job, mode)
    gates.run_first_pass(MAPS)
    application = running.application
    executors = running.executors()
    assert sorted(executors.values()) == [node.host.address for node in yarn.nodes]
    for node in yarn.nodes:
        (files,) = node.local.glob(f"usercache/*/appcache/{application}")
        (daemon,) = daemons_below(files)
        (executor,) = [pid for pid, host in executors.items() if host == node.host.address]
        assert daemon in descendants(executor), "YARN adds it to the memory of the container"
    gates.open_all()
    outcome = running.wait()
    assert outcome.answer == plain_answer(job)
    assert_all_merged(outcome, passes=2)
    assert_nothing_is_left(yarn, application)


@on_one_line
def test_dynamic_allocation_releases_all_containers_and_services_near_them_keep_the_shuffle(
    yarn, services, submit, gates, plain_answer
):
    named = {"spark.lodestone.services": services_of(services)}
    job = keyed_rows(gates, **named, **REMOTE, **NO_IDLE_EXECUTORS)
    running = submit(yarn, job)
    gates.run_first_pass(MAPS)
    wait_until(lambda: not running.executors(), "the end of every executor", timeout_s=60)
    gates.open_all()
    outcome = running.wait()
    assert outcome.answer == plain_answer(job)
    assert gates.map_runs(MAPS) == [1] * MAPS
    assert_all_merged(outcome, passes=2)
    *near, elsewhere = [service.counts()["push_requests"] for service in services]
    assert all(near) and elsewhere == 0, "those on the hosts of NodeManagers come first"
    assert_nothing_is_left(yarn, running.application)


@on_one_line
@pytest.mark.seldom
@pytest.mark.parametrize("mode", ["client", "cluster"])
def test_services_of_ones_own_merge_for_containers(mode, yarn, services, submit, plain_answer):
    job = keyed_rows(**{"spark.lodestone.services": services_of(services)})
    outcome = submit(yarn, job, mode).wait()
    assert outcome.answer == plain_answer(job)
    assert_all_merged(outcome)


AUTHENTICATED = {"spark.authenticate": "true", "spark.network.crypto.enabled": "true"}


@on_one_line
@pytest.mark.seldom
@pytest.mark.parametrize("mode", ["client", "cluster"])
def test_a_daemon_in_a_container_gets_the_secret_that_spark_makes_on_yarn(
    mode, yarn, submit, plain_answer
):
    job = keyed_rows(**AUTHENTICATED)
    running = submit(yarn, job, mode)
    outcome = running.wait()
    assert outcome.answer == plain_answer(job)
    assert_all_merged(outcome)
    assert_nothing_is_left(yarn, running.application)


@on_one_line
@pytest.mark.seldom
def test_services_without_the_secret_that_spark_makes_on_yarn_are_not_used(
    yarn, services, submit, plain_answer
):
    job = keyed_rows(**{"spark.lodestone.services": services_of(services)}, **AUTHENTICATED)
    outcome = submit(yarn, job).wait()
    assert outcome.answer == plain_answer(job)
    assert outcome.reasons() == {"SECRET_NOT_SHARED": 1}
    assert outcome.report["totals"]["blocksPushed"] == 0


@on_one_line
@pytest.mark.seldom
def test_a_container_that_takes_too_much_memory_is_killed_with_its_daemon_and_the_answer_is_right(
    yarn, submit, gates, plain_answer
):
    arguments = {"maps": MAPS, "partitions": PARTITIONS, "gates": gates.address}
    job = Job("with_a_greedy_attempt", arguments)
    running = submit(yarn, job)
    # The monitor may be sooner than the gate.
    outcome = running.wait()
    assert outcome.answer == plain_answer(job)
    assert "exceeding physical memory limits" in outcome.log
    assert_nothing_is_left(yarn, running.application)


@on_one_line
@pytest.mark.seldom
def test_the_documented_overhead_has_room_for_a_daemon_that_uses_all_its_memory(
    yarn, submit, plain_answer
):
    # More than 256 MiB for the daemon of each host, in blocks that are not too large.
    sizes = {"rows": 6000000, "maps": 32, "partitions": 64}
    job = Job("spilled_shuffles", sizes, conf={"spark.shuffle.compress": "false"})
    running = submit(yarn, job)
    outcome = running.wait()
    assert outcome.answer == plain_answer(job)
    assert outcome.report["totals"]["bytesPushed"] > 2 * 256 << 20
    used = container_memory(yarn, running.application)
    executors = [limit for _, limit in used.values() if limit > EXECUTOR_MB]
    assert len(executors) == 2, f"the monitor has not looked at both: {used}"
    assert all(most < limit for most, limit in used.values()), used


def container_memory(yarn: Yarn, application: str) -> dict[str, tuple[float, float]]:
    """Returns for each container the most MB that the monitor saw, and its limit."""
    number = application.removeprefix("application_")
    seen = re.compile(
        rf"(container_(?:e\d+_)?{number}_\w+): ([\d.]+) (MB|GB) of ([\d.]+) (MB|GB) physical memory"
    )
    used: dict[str, tuple[float, float]] = {}
    for node in yarn.nodes:
        for container, now, unit, limit, unit_of_limit in seen.findall(node.log.read_text()):
            most = max(megabytes(now, unit), used.get(container, (0.0, 0.0))[0])
            used[container] = (most, megabytes(limit, unit_of_limit))
    return used


def megabytes(number: str, unit: str) -> float:
    return float(number) * (1024 if unit == "GB" else 1)


@pytest.fixture
def fragile(tmp_path):
    """Starts a cluster that soon knows of the loss of a host."""
    soon = {
        "yarn.nm.liveness-monitor.expiry-interval-ms": "5000",
        "yarn.resourcemanager.nodemanagers.heartbeat-interval-ms": "500",
        # Room for both executors on the host that is left.
        "yarn.nodemanager.resource.memory-mb": "4000",
    }
    cluster = Yarn(tmp_path / "cluster", **soon)
    yield cluster
    cluster.stop()


@pytest.fixture
def recovering(tmp_path):
    """Starts a cluster whose NodeManagers can be killed and started again. It must not take one for
    lost that needs seconds to start."""
    kept = {
        "yarn.nodemanager.recovery.enabled": "true",
        "yarn.nodemanager.recovery.supervised": "true",
    }
    cluster = Yarn(tmp_path / "cluster", **kept)
    yield cluster
    cluster.stop()


@on_one_line
@pytest.mark.seldom
@pytest.mark.parametrize("mode", ["merge", "remote"])
def test_a_host_that_is_lost_costs_no_map_run_in_mode_remote_and_no_answer_in_mode_merge(
    mode, fragile, start_daemon, submit, gates, plain_answer
):
    services = [start_daemon(f"service{i}") for i in range(2)]
    named = {"spark.lodestone.services": services_of(services), "spark.lodestone.mode": mode}
    job = keyed_rows(gates, **named)
    running = submit(fragile, job)
    gates.run_first_pass(MAPS)
    lost = running.node_without_master()
    lost.kill_host()
    wait_until(lambda: len(fragile.running_nodes()) == 1, "the loss of the host", timeout_s=60)
    gates.open_all()
    outcome = running.wait()
    assert outcome.answer == plain_answer(job)
    if mode == "remote":
        assert gates.map_runs(MAPS) == [1] * MAPS


@on_one_line
@pytest.mark.seldom
@pytest.mark.parametrize("mode", ["merge", "remote"])
def test_a_node_manager_that_is_killed_and_started_again_costs_nothing(
    mode, recovering, submit, gates, plain_answer, start_daemon
):
    named = {"spark.lodestone.services": start_daemon().host_port, "spark.lodestone.mode": mode}
    job = keyed_rows(gates, **named)
    running = submit(recovering, job)
    gates.run_first_pass(MAPS)
    executors = running.executors()
    for node in recovering.nodes:
        node.kill()
        node.start()
    recovering.wait_for_nodes()
    gates.open_all()
    outcome = running.wait()
    assert outcome.answer == plain_answer(job)
    assert gates.map_runs(MAPS) == [1] * MAPS
    assert len(executors) == 2
    assert_nothing_is_left(recovering, running.application)
