# SPDX-License-Identifier: Apache-2.0
"""A standalone Spark cluster whose workers have hosts of their own."""

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from . import jvm
from .daemon import free_port, wait_until
from .hosts import LOOPBACK, Host
from .paths import ROOT, spark_home
from .processes import executors_of

WORKERS = (Host("127.0.0.2"), Host("127.0.0.3"))
# Three JVMs, on a machine that may be busy with other tests.
START_TIMEOUT_S = 120
STOP_TIMEOUT_S = 20


class Cluster:
    """One master, and on each host a worker with `cores`. `master` is the URL for a job. All files
    are below `folder`, except those of executors with other local directories. `memory`: what the
    executors of a worker may have together."""

    def __init__(
        self,
        spark_version: str,
        folder: Path,
        master: Host = LOOPBACK,
        workers: Sequence[Host] = WORKERS,
        local_dirs: Sequence[Path] = (),
        cores: int = 1,
        memory: str = "1g",
    ):
        self.hosts = workers
        self.folder = folder
        self._local_dirs = local_dirs
        self._version = spark_version
        folder.mkdir(parents=True)
        port = free_port()
        self.master = f"spark://{master.address}:{port}"
        self._processes = [self._start("master", master, "master.Master", "--port", str(port))]
        for host in workers:
            name = f"worker-{host.address}"
            sizes = ["--cores", str(cores), "--memory", memory, "--work-dir", str(folder / name)]
            self._processes.append(self._start(name, host, "worker.Worker", *sizes, self.master))
        self._wait_for("master", "Registering worker", times=len(workers))

    @property
    def pids(self) -> list[int]:
        """Returns the process ids of master and workers."""
        return [process.pid for process in self._processes]

    def executors(self) -> list[int]:
        """Returns the process ids of the executors of all applications."""
        return [executor for pid in self.pids for executor in executors_of(pid)]

    def stop(self) -> None:
        """Stops all processes; workers end their executors."""
        for process in reversed(self._processes):
            process.terminate()
            process.wait(STOP_TIMEOUT_S)

    def _start(self, name: str, host: Host, main: str, *arguments: str) -> subprocess.Popen:
        home = spark_home(self._version)
        start = [*host.enter, home / "bin" / "spark-class", f"org.apache.spark.deploy.{main}"]
        options = ["--host", host.address, "--webui-port", "0"]
        local_dirs = self._local_dirs or [self.folder / f"local-{name}"]
        environment = {
            **os.environ,
            "SPARK_HOME": str(home),
            "PYTHONPATH": str(ROOT / "e2e"),
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": jvm.options(self._version),
            "SPARK_DAEMON_CLASSPATH": jvm.classpath(self._version),
            "SPARK_LOCAL_DIRS": ",".join(map(str, local_dirs)),
        }
        environment.pop("SPARK_LOCAL_IP", None)
        with (self.folder / f"{name}.log").open("wb") as log:
            return subprocess.Popen(
                [*start, *options, *arguments],
                cwd=self.folder, env=environment, stdout=log, stderr=subprocess.STDOUT,
            )  # fmt: skip

    def _wait_for(self, name: str, text: str, times: int) -> None:
        log = self.folder / f"{name}.log"
        wait_until(
            lambda: log.read_text().count(text) >= times, f"{text!r} in {log}", START_TIMEOUT_S
        )
