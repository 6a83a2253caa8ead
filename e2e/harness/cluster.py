# SPDX-License-Identifier: Apache-2.0
"""A standalone Spark cluster whose workers have hosts of their own, all of them loopback addresses."""

import os
import subprocess
from pathlib import Path

from .daemon import free_port, wait_until
from .paths import ROOT, spark_home
from .processes import executors_of

HOSTS = ["127.0.0.2", "127.0.0.3"]
# Three JVMs, on a machine that may be busy with other tests.
START_TIMEOUT_S = 120
STOP_TIMEOUT_S = 20


class Cluster:
    """One master, and on each host a worker with one core. `master` is the URL for a job; all files are below `folder`."""

    def __init__(self, spark_version: str, folder: Path):
        self.hosts = HOSTS
        self.folder = folder
        self._version = spark_version
        folder.mkdir(parents=True)
        port = free_port()
        self.master = f"spark://127.0.0.1:{port}"
        place = ["--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"]
        self._processes = [self._start("master", "deploy.master.Master", *place)]
        for host in HOSTS:
            sizes = ["--cores", "1", "--memory", "1g", "--work-dir", str(folder / f"work-{host}")]
            rest = ["--host", host, "--webui-port", "0", *sizes, self.master]
            self._processes.append(self._start(host, "deploy.worker.Worker", *rest))
        self._wait_for("master", "Registering worker", times=len(HOSTS))

    def executors(self) -> list[int]:
        """The process ids of the executors of all applications."""
        return [pid for process in self._processes for pid in executors_of(process.pid)]

    def stop(self) -> None:
        """Workers end their executors."""
        for process in reversed(self._processes):
            process.terminate()
            process.wait(STOP_TIMEOUT_S)

    def _start(self, name: str, main: str, *arguments: str) -> subprocess.Popen:
        home = spark_home(self._version)
        environment = {
            **os.environ,
            "SPARK_HOME": str(home),
            "PYTHONPATH": str(ROOT / "e2e"),
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_LOCAL_DIRS": str(self.folder / f"local-{name}"),
        }
        environment.pop("SPARK_LOCAL_IP", None)
        with (self.folder / f"{name}.log").open("wb") as log:
            return subprocess.Popen(
                [home / "bin" / "spark-class", f"org.apache.spark.{main}", *arguments],
                cwd=self.folder, env=environment, stdout=log, stderr=subprocess.STDOUT,
            )  # fmt: skip

    def _wait_for(self, name: str, text: str, times: int) -> None:
        log = self.folder / f"{name}.log"
        wait_until(
            lambda: log.read_text().count(text) >= times, f"{text!r} in {log}", START_TIMEOUT_S
        )
