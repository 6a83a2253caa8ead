# SPDX-License-Identifier: Apache-2.0
"""Stock Spark on YARN, whose NodeManagers have a daemon as their shuffle service: each starts one,
hands it the secrets of applications, and tells it when they end."""

import os
import signal

import pytest

from harness.daemon import counts_at, free_port, wait_until
from harness.hosts import Host
from harness.in_turns import IN_TURNS, arguments_of, assert_no_task_ran_again, wait_for_a_turn
from harness.leaks import assert_kept
from harness.paths import DAEMON, NOT_41, USUAL_LINES, YARN_JAR
from harness.processes import daemons_below
from harness.spark_process import Job
from harness.yarn import Node, Service, Yarn, processes_at
from harness.yarn_job import YarnJob

MAPS, PARTITIONS = 6, 8
BLOCKS = MAPS * PARTITIONS
on_one_line = pytest.mark.lines(*USUAL_LINES, seldom=NOT_41)
RECOVERING = {
    "yarn.nodemanager.recovery.enabled": "true",
    "yarn.nodemanager.recovery.supervised": "true",
}
AUTHENTICATED = {"spark.authenticate": "true", "spark.network.crypto.enabled": "true"}
THROUGH_SERVICES = {"spark.shuffle.readHostLocalDisk": "false"}
NO_IDLE_EXECUTORS = {
    "spark.dynamicAllocation.enabled": "true",
    "spark.dynamicAllocation.minExecutors": "0",
    "spark.dynamicAllocation.initialExecutors": "2",
    "spark.dynamicAllocation.maxExecutors": "2",
    "spark.dynamicAllocation.executorIdleTimeout": "1s",
}
SPARKS_OWN_PUSH = {
    "spark.shuffle.push.enabled": "true",
    "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
    # Spark does not wait for pushes of small shuffles otherwise, nor use so few hosts.
    "spark.shuffle.push.minShuffleSizeToWait": "0",
    "spark.shuffle.push.mergersMinStaticThreshold": "1",
}


class Cluster:
    """A cluster whose NodeManagers have the service, all on one port."""

    def __init__(self, folder, **settings: str):
        self.port = free_port()
        self._folder = folder
        self._admin: dict[str, int] = {}
        self.yarn = Yarn(folder / "cluster", self._service, **settings)

    def _service(self, host: Host) -> Service:
        data, file = self.data(host.address), self._folder / f"{host.address}.toml"
        data.mkdir()
        self._admin[host.address] = free_port()
        keys = {
            "listen": f"{host.address}:{self.port}",
            "admin": f"127.0.0.1:{self._admin[host.address]}",
            "dir": str(data),
            "memory": "256MiB",
            "reserve": "0b",
        }
        file.write_text("".join(f'{key} = "{value}"\n' for key, value in keys.items()))
        local = self._folder / "cluster" / host.address / "local"
        (self._folder / "no-disk").touch()
        settings = {
            # As YARN's documents allow it. The first disk has failed.
            "yarn.nodemanager.local-dirs": f"{self._folder}/no-disk/local,file://{local}",
            "lodestone.program": str(DAEMON),
            "lodestone.config": str(file),
            "spark.authenticate": "true",
        }
        main = "io.lodestone.yarn.ShuffleService"
        return Service("spark_shuffle", main, [YARN_JAR], settings)

    def through_services(self) -> dict[str, str]:
        """Returns the configuration of applications."""
        return {
            "spark.shuffle.service.enabled": "true",
            "spark.shuffle.service.port": str(self.port),
        }

    def data(self, address: str):
        return self._folder / f"data-{address}"

    def named(self) -> dict[str, str]:
        """Returns the configuration with which the plugin uses the daemons."""
        hosts = [node.host.address for node in self.yarn.nodes]
        return {"spark.lodestone.services": ",".join(f"{host}:{self.port}" for host in hosts)}

    def restart(self, node: Node) -> None:
        """Restarts a NodeManager as an operator does, and waits until its next daemon serves."""
        node.stop()
        node.start()
        self.yarn.wait_for_nodes()
        wait_until(lambda: len(self.daemons()) == len(self.yarn.nodes), "the next daemon")

    def daemons(self) -> list[int]:
        return [pid for node in self.yarn.nodes for pid in daemons_below(node.folder)]

    def log_of(self, node: Node) -> str:
        """Returns the log of the daemons of a NodeManager."""
        (log,) = node.folder.rglob("daemon.log")
        return log.read_text()

    def counts(self, name: str) -> int:
        return sum(self.counts_of(node)[name] for node in self.yarn.nodes)

    def counts_of(self, node: Node) -> dict[str, int]:
        return counts_at(self._admin[node.host.address])

    def secrets(self, application: str) -> list:
        return list(self.yarn.folder.rglob(f"secrets/{application}"))

    def hosts(self) -> list[str]:
        return [node.host.address for node in self.yarn.nodes]

    def managers(self) -> list[int]:
        """Returns the processes of the ResourceManager and of the NodeManagers."""
        return [one.process.pid for one in (self.yarn, *self.yarn.nodes)]

    def manager_logs(self) -> list:
        return [self.yarn.folder / "manager.txt", *(node.log for node in self.yarn.nodes)]

    def daemon_logs(self) -> list:
        """Returns the logs that daemons write, without those that they have put aside."""
        return list(self.yarn.folder.rglob("daemon.log"))

    def container_logs(self, application: str) -> list:
        """Returns what containers of an application have written, if it is not empty."""
        found = (path for node in self.yarn.nodes for path in node.logs.rglob("stderr"))
        return [path for path in found if application in path.parts and path.stat().st_size > 0]

    def logs(self) -> list:
        """Returns the folders of all logs: of containers, and of NodeManagers and daemons."""
        containers = [node.logs for node in self.yarn.nodes]
        return containers + self.manager_logs() + list(self.yarn.folder.rglob("daemon.log*"))


def is_of_yarn(path) -> bool:
    """Returns whether YARN keeps the secrets of applications there: in their tokens, and for its
    recovery."""
    is_recovery = "recovery" in path.parts and "spark_shuffle" not in path.parts
    return is_recovery or path.name.endswith((".tokens", "container_tokens"))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    found = Cluster(tmp_path_factory.mktemp("yarn-service"), **RECOVERING)
    yield found
    found.yarn.stop()
    wait_until(lambda: not found.daemons(), "the end of the daemons")


@pytest.fixture
def submit(spark, cluster):
    """Submits jobs, of stock Spark or with the plugin. One that still runs at the end of the test
    is killed."""
    started = []

    def run(name: str, arguments: dict, is_stock: bool = True, **conf: str) -> YarnJob:
        job = Job(name, arguments, conf=cluster.through_services() | conf, is_stock=is_stock)
        started.append(YarnJob(spark, cluster.yarn, job))
        return started[-1]

    yield run
    for job in started:
        job.kill()


def assert_it_is_forgotten(cluster, application: str, ended_before: int):
    wait_until(lambda: not cluster.secrets(application), "the end of its secrets")
    ended = lambda: cluster.counts("remove_applications") > ended_before  # noqa: E731
    wait_until(ended, "the end of the application at its services")


@on_one_line
@pytest.mark.seldom
@pytest.mark.parametrize("recovery_disabled", ["false", "true"])
def test_blocks_of_executors_that_dynamic_allocation_ends_are_read_by_those_who_know_the_secret(
    recovery_disabled, cluster, submit, gates, plain_answer
):
    arguments = {"maps": MAPS, "partitions": PARTITIONS, "passes": 2, "gates": gates.address}
    disabled = {"spark.yarn.shuffle.server.recovery.disabled": recovery_disabled}
    conf = {**AUTHENTICATED, **THROUGH_SERVICES, **NO_IDLE_EXECUTORS, **disabled}
    ended = cluster.counts("remove_applications")
    running = submit("keyed_rows", arguments, **conf)
    # Executors that have no task end soon.
    for name in ["map-0", "map-1"]:
        gates.wait_reached(name)
    secrets = cluster.secrets(running.application)
    secret = secrets[0].read_text().strip()
    searched = processes_at(str(cluster.yarn.folder))
    executors = running.executors()
    assert len(executors) == 2
    assert {*executors, *cluster.daemons(), *cluster.managers()} <= set(searched)
    assert_kept(secret, pids=searched)
    gates.run_first_pass(MAPS)
    kept = assert_kept(
        secret,
        folders=[cluster.yarn.folder, *map(cluster.data, cluster.hosts())],
        is_for_it=secrets.__contains__,
        is_of_the_manager=is_of_yarn,
    )
    assert sorted(kept) == sorted(secrets) and len(secrets) == 2
    wait_until(lambda: not running.executors(), "the end of every executor", timeout_s=60)
    read = cluster.counts("fetch_chunks")
    gates.open_all()
    outcome = running.wait()
    assert outcome.answer == plain_answer(Job("keyed_rows", arguments))
    assert gates.map_runs(MAPS) == [1] * MAPS
    assert cluster.counts("fetch_chunks") - read == BLOCKS
    assert_it_is_forgotten(cluster, running.application, ended)
    assert len(cluster.daemon_logs()) == len(cluster.hosts())
    for log in [*cluster.daemon_logs(), *cluster.manager_logs()]:
        assert log.stat().st_size > 0, log
    assert len(cluster.container_logs(running.application)) >= 3, "of its master and executors"
    texts = [running.log(), outcome.report]
    assert_kept(secret, folders=cluster.logs(), texts=texts)


@on_one_line
@pytest.mark.seldom
def test_secrets_and_registrations_outlive_a_killed_daemon_and_a_killed_node_manager(
    cluster, submit, gates, plain_answer
):
    arguments = {"maps": MAPS, "partitions": PARTITIONS, "passes": 2, "gates": gates.address}
    conf = {**AUTHENTICATED, **THROUGH_SERVICES, **NO_IDLE_EXECUTORS}
    running = submit("keyed_rows", arguments, **conf)
    gates.run_first_pass(MAPS)
    wait_until(lambda: not running.executors(), "the end of every executor", timeout_s=60)
    before = cluster.daemons()
    for node in cluster.yarn.nodes:
        node.kill()
    assert cluster.daemons() == before, "a killed NodeManager leaves its daemon to its executors"
    for daemon in before:
        os.kill(daemon, signal.SIGKILL)
    for node in cluster.yarn.nodes:
        node.start()
    cluster.yarn.wait_for_nodes()
    wait_until(lambda: len(cluster.daemons()) == 2, "the next daemons")
    (killed, kept) = cluster.daemons()
    os.kill(killed, signal.SIGKILL)
    wait_until(lambda: len(set(cluster.daemons()) - {killed}) == 2, "the daemon after that")
    assert kept in cluster.daemons()
    gates.open_all()
    outcome = running.wait()
    assert outcome.answer == plain_answer(Job("keyed_rows", arguments))
    assert gates.map_runs(MAPS) == [1] * MAPS


@on_one_line
@pytest.mark.seldom
@pytest.mark.parametrize("mode", ["merge", "remote"])
def test_the_plugin_uses_the_daemons_of_the_node_managers_with_the_secret_that_spark_makes(
    mode, cluster, submit, plain_answer
):
    arguments = {"maps": MAPS, "partitions": PARTITIONS}
    conf = {**AUTHENTICATED, **cluster.named(), "spark.lodestone.mode": mode}
    outcome = submit("keyed_rows", arguments, is_stock=False, **conf).wait()
    assert outcome.answer == plain_answer(Job("keyed_rows", arguments))
    assert outcome.reasons() == {}
    assert outcome.report["totals"]["mergedBlocksRead"] == BLOCKS


@pytest.mark.lines(*USUAL_LINES)
@pytest.mark.seldom
def test_blocks_that_stock_spark_pushes_on_yarn_are_read_merged_without_their_originals(
    cluster, submit, gates, plain_answer
):
    arguments = {"maps": MAPS, "partitions": PARTITIONS, "passes": 2, "gates": gates.address}
    merged = cluster.counts("merge_segments")
    running = submit("keyed_rows", arguments, **AUTHENTICATED, **SPARKS_OWN_PUSH)
    gates.run_first_pass(MAPS)
    assert cluster.counts("merge_segments") - merged == BLOCKS
    originals = list(cluster.yarn.folder.rglob("shuffle_*.data"))
    assert len(originals) == MAPS
    for original in originals:
        original.unlink()
    gates.open_all()
    outcome = running.wait()
    assert outcome.answer == plain_answer(Job("keyed_rows", arguments))
    assert {attempt for attempt, _ in outcome.stages} == {0}
    assert gates.map_runs(MAPS) == [1] * MAPS


@on_one_line
@pytest.mark.seldom
def test_a_node_manager_that_stops_ends_its_daemon_and_the_next_one_starts_another(spark, cluster):
    wait_until(lambda: len(cluster.daemons()) == 2, "the daemons of both hosts")
    stopped = cluster.yarn.nodes[0]
    stopped.stop()
    (other,) = cluster.daemons()
    (announced,) = stopped.folder.rglob("announce")
    assert announced.read_text() == "", "it has ended in order"
    stopped.start()
    cluster.yarn.wait_for_nodes()
    wait_until(lambda: len(cluster.daemons()) == 2, "the next daemon")
    assert other in cluster.daemons()


TAKEN_OVER = "taken over from the daemon before"


@on_one_line
@pytest.mark.seldom
def test_a_restart_of_one_node_manager_after_the_other_costs_queries_no_map_run(
    cluster, submit, gates, plain_answer
):
    arguments = arguments_of(gates)
    conf = {**AUTHENTICATED, **cluster.named(), **IN_TURNS}
    running = submit("shipments_in_turns", arguments, is_stock=False, **conf)
    wait_for_a_turn(gates)
    for node in cluster.yarn.nodes * 2:
        shuffles = cluster.log_of(node).count(TAKEN_OVER)
        cluster.restart(node)
        assert cluster.log_of(node).count(TAKEN_OVER) > shuffles, "it had none of the queries"
        # The driver knows that it is back.
        registered = lambda at=node: cluster.counts_of(at)["register_shuffles"]  # noqa: E731
        wait_until(registered, "its next shuffle", timeout_s=120)
    gates.open_all()
    outcome = running.wait()
    assert outcome.answer == plain_answer(Job("shipments_in_turns", arguments, conf=conf))
    assert_no_task_ran_again(outcome)


@on_one_line
@pytest.mark.seldom
def test_a_node_manager_that_stops_leaves_secrets_and_shuffles_to_applications_on_other_hosts(
    spark, tmp_path, gates
):
    found = Cluster(tmp_path, **{"yarn.nodemanager.recovery.enabled": "true"})
    running = None
    try:
        arguments = {"maps": MAPS, "partitions": PARTITIONS, "passes": 2, "gates": gates.address}
        conf = found.through_services() | AUTHENTICATED
        job = Job("keyed_rows", arguments, conf=conf, is_stock=True)
        running = YarnJob(spark, found.yarn, job)
        gates.run_first_pass(MAPS)
        stopped = running.node_without_master()
        stopped.stop()
        assert len(found.secrets(running.application)) == 2
        log = found.log_of(stopped)
        assert "stopped" in log and "application ended" not in log
        log = stopped.log.read_text()
        assert f"{running.application} may live on other hosts" in log, "YARN says it has ended"
    finally:
        if running:
            running.kill()
        found.yarn.stop()


@on_one_line
@pytest.mark.seldom
def test_a_node_manager_without_recovery_keeps_what_is_the_daemons_in_its_local_directory(
    spark, tmp_path
):
    found = Cluster(tmp_path)
    try:
        for node in found.yarn.nodes:
            announced = node.local / "lodestone" / "announce"
            wait_until(lambda file=announced: holds_ready_line(file), "the daemon")
            assert (node.local / "lodestone").stat().st_mode & 0o777 == 0o700
            assert (node.local / "lodestone" / "secrets").is_dir()
    finally:
        found.yarn.stop()


def holds_ready_line(file) -> bool:
    return file.exists() and file.read_text().startswith("lodestone ready")
