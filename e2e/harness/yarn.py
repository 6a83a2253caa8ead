# SPDX-License-Identifier: Apache-2.0
"""YARN: a ResourceManager, and a NodeManager on each of two hosts, as processes of their own."""

import json
import os
import shutil
import signal
import subprocess
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from .daemon import free_port, wait_until
from .hosts import Host
from .jvm import SHORT_LIVED
from .paths import ROOT
from .processes import all_pids, command_line, is_zombie
from .yarn_files import capacity_of_one_queue, logging, site

JARS = ROOT / ".cache" / "yarn-jars"
HOSTS = (Host("127.0.0.2"), Host("127.0.0.3"))
MAIN = "org.apache.hadoop.yarn.server"
OPTIONS = (*SHORT_LIVED, "-Xmx192m", "--add-opens=java.base/java.lang=ALL-UNNAMED")
REGISTERED = b"Registered with ResourceManager as"
# Three JVMs, on a machine that may be busy with other tests.
START_TIMEOUT_S = 120
STOP_TIMEOUT_S = 30


class NoYarn(Exception):
    """`make test` could not fetch the jars, and said why."""


@dataclass(frozen=True)
class Service:
    """An auxiliary service of the NodeManagers: its name, its class, and the jars that it needs.
    `settings` may depend on the host."""

    name: str
    main: str
    classpath: Sequence[Path]
    settings: dict[str, str] = field(default_factory=dict)


class Node:
    """A NodeManager with directories and ports of its own. It can be killed and started again."""

    def __init__(self, host: Host, folder: Path, settings: dict[str, str], service: Service | None):
        self.host = host
        self.folder = folder
        self._extra = list(service.classpath) if service else []
        names = ("", "localizer.", "webapp.", "collector-service.")
        own = {f"yarn.nodemanager.{name}address": f"{host.address}:{free_port()}" for name in names}
        own["yarn.nodemanager.hostname"] = host.address
        for name in ("local", "log"):
            own[f"yarn.nodemanager.{name}-dirs"] = str(folder / name)
        own["yarn.nodemanager.recovery.dir"] = str(folder / "recovery")
        own["hadoop.tmp.dir"] = str(folder / "tmp")
        services = {"yarn.nodemanager.aux-services": ""}
        if service:
            services = service.settings | {
                "yarn.nodemanager.aux-services": service.name,
                f"yarn.nodemanager.aux-services.{service.name}.class": service.main,
            }
        self.configuration = folder / "conf"
        site(self.configuration, settings | own | services)
        logging(self.configuration)
        self.log = folder / "log.txt"
        self.log.touch()
        self.start()

    @property
    def local(self) -> Path:
        """The directory below which containers have their files."""
        return self.folder / "local"

    @property
    def logs(self) -> Path:
        """The directory below which containers have their logs."""
        return self.folder / "log"

    def start(self) -> None:
        main = f"{MAIN}.nodemanager.NodeManager"
        self._log_start = self.log.stat().st_size
        self.process = start(main, self.configuration, self.folder, self.log, self._extra)

    def has_registered(self) -> bool:
        """Returns true if the manager has taken this start: it lists a killed one for a while."""
        with self.log.open("rb") as log:
            log.seek(self._log_start)
            return REGISTERED in log.read()

    def kill(self) -> None:
        """Sends SIGKILL to the NodeManager. Its containers stay."""
        self.process.kill()
        self.process.wait(STOP_TIMEOUT_S)

    def stop(self) -> None:
        """Sends SIGTERM to the NodeManager. With recovery its containers stay."""
        self.process.terminate()
        self.process.wait(STOP_TIMEOUT_S)

    def kill_host(self) -> None:
        """Kills the NodeManager and all that runs below it, as if the machine had gone."""
        self.kill()
        kill_all(lambda: processes_at(str(self.folder)))


class Yarn:
    """A cluster. `configuration` is the HADOOP_CONF_DIR of its clients. All files are below
    `folder`."""

    def __init__(
        self,
        folder: Path,
        service=lambda host: None,
        hosts: Sequence[Host] = HOSTS,
        **settings: str,
    ):
        if not (JARS / ".ready").exists():
            raise NoYarn(f"{JARS} is not filled: `make yarn-jars` does it, or says why not")
        self.folder = folder
        self.configuration = folder / "conf"
        manager = {
            f"yarn.resourcemanager.{name}address": f"127.0.0.1:{free_port()}"
            for name in ("", "scheduler.", "resource-tracker.", "admin.", "webapp.")
        }
        self._web = manager["yarn.resourcemanager.webapp.address"]
        shared = SETTINGS | manager | settings
        own = {"hadoop.tmp.dir": str(folder / "tmp")}
        site(self.configuration, shared | own)
        capacity_of_one_queue(self.configuration)
        logging(self.configuration)
        self.nodes: list[Node] = []
        main = f"{MAIN}.resourcemanager.ResourceManager"
        self.process = start(main, self.configuration, folder, folder / "manager.txt")
        try:
            for host in hosts:
                at = folder / host.address
                self.nodes.append(Node(host, at, shared, service(host)))
            self.wait_for_nodes()
        except BaseException:
            self.stop()
            raise

    def wait_for_nodes(self) -> None:
        """Waits until all NodeManagers have registered, and none is lost."""

        def are_running() -> bool:
            for one in (self.process, *(node.process for node in self.nodes)):
                assert one.poll() is None, f"it has ended: {one.args[-1]}, logs in {self.folder}"
            have_registered = all(node.has_registered() for node in self.nodes)
            return (
                have_registered and self._answers() and len(self.running_nodes()) == len(self.nodes)
            )

        wait_until(are_running, f"all NodeManagers, logs in {self.folder}", START_TIMEOUT_S)

    def running_nodes(self) -> list[str]:
        """Returns the hosts of the nodes that run, as the ResourceManager knows them."""
        nodes = self._ask("nodes?states=RUNNING")["nodes"] or {"node": []}
        return [node["nodeHostName"] for node in nodes["node"]]

    def _ask(self, what: str) -> dict:
        """Returns an answer of the ResourceManager."""
        with urllib.request.urlopen(
            f"http://{self._web}/ws/v1/cluster/{what}", timeout=10
        ) as reply:
            return json.load(reply)

    def _answers(self) -> bool:
        try:
            return bool(self._ask("info"))
        except OSError:
            return False  # it does not listen yet

    def stop(self) -> None:
        """Kills all processes and containers by their ids. No other process has this folder."""
        for one in (*(node.process for node in self.nodes), self.process):
            one.kill()
            one.wait(STOP_TIMEOUT_S)
        kill_all(lambda: processes_at(str(self.folder)))


# Events come soon, memory is measured, and nothing depends on the size of the machine.
SETTINGS = {
    "yarn.resourcemanager.hostname": "127.0.0.1",
    "yarn.resourcemanager.nodemanagers.heartbeat-interval-ms": "100",
    "yarn.scheduler.minimum-allocation-mb": "64",
    "yarn.scheduler.maximum-allocation-mb": "2200",
    # Room for an application master and one executor: the two executors of a job have two hosts.
    "yarn.nodemanager.resource.memory-mb": "2200",
    "yarn.nodemanager.resource.cpu-vcores": "4",
    "yarn.nodemanager.pmem-check-enabled": "true",
    "yarn.nodemanager.vmem-check-enabled": "false",
    # Otherwise NodeManagers leave the check to control groups, also without any.
    "yarn.nodemanager.resource.memory.enforced": "false",
    "yarn.nodemanager.container-monitor.interval-ms": "500",
    "yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage": "100",
    "yarn.nodemanager.disk-health-checker.min-free-space-per-disk-mb": "0",
    "yarn.nodemanager.localizer.fetch.thread-count": "2",
    "yarn.log-aggregation-enable": "false",
}


def start(main: str, configuration: Path, folder: Path, log: Path, extra=()) -> subprocess.Popen:
    classpath = ":".join(map(str, [configuration, f"{JARS}/*", *extra]))
    java = Path(shutil.which("java")).resolve()
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("SPARK", "HADOOP"))}
    # Containers get these two.
    environment |= {"JAVA_HOME": str(java.parents[1]), "HADOOP_CONF_DIR": str(configuration)}
    with log.open("ab") as output:
        return subprocess.Popen(
            [java, *OPTIONS, "-cp", classpath, main],
            cwd=folder, env=environment, stdout=output, stderr=subprocess.STDOUT,
        )  # fmt: skip


def processes_at(name: str) -> list[int]:
    """Returns the processes with a name in their arguments or in their working directory, which
    may be removed: all of a container, and what it left behind."""
    return [pid for pid in all_pids() if not is_zombie(pid) and name in _names_of(pid)]


def _names_of(pid: int) -> str:
    try:
        directory = os.readlink(f"/proc/{pid}/cwd")
    except OSError:
        directory = ""
    return " ".join([*command_line(pid), directory]) if pid != os.getpid() else ""


def kill_all(found) -> None:
    """Kills what is found, until nothing is: a process that starts another may be sooner."""

    def are_gone() -> bool:
        for pid in (pids := found()):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass  # it has ended
        return not pids

    wait_until(are_gone, "the end of all containers", STOP_TIMEOUT_S)
