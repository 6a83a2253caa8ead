# SPDX-License-Identifier: Apache-2.0
"""PySpark processes that run one job after another, each in an application of its own.

The start of Python and a JVM, and the loading of Spark, take longer than most jobs. An application
shares nothing else with the one before.
"""

import atexit
import json
import os
import shlex
import subprocess
import tempfile
from pathlib import Path

from .hosts import LOOPBACK, Host
from .paths import ROOT, python_of, spark_home
from .readable import readable

STOP_TIMEOUT_S = 60
# Settings that apply when the JVM starts: a driver with other ones is another process.
OF_THE_JVM = (
    "spark.driver.memory",
    "spark.driver.extraJavaOptions",
    "spark.driver.extraClassPath",
)


class Driver:
    """One process. `taken` returns one; the caller gives it back when its job has succeeded, or
    kills it."""

    def __init__(self, spark_version: str, host: Host, settings: dict[str, str]):
        self.kind = (spark_version, host, settings)
        folder = Path(tempfile.mkdtemp(prefix="lodestone-e2e-driver-"))
        self._log = folder / "log.txt"
        options = [word for pair in settings.items() for word in ("--conf", "=".join(pair))]
        started_with = {"PYSPARK_SUBMIT_ARGS": shlex.join([*options, "pyspark-shell"])}
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                [*host.enter, python_of(spark_version), "-m", "harness.worker"],
                cwd=folder, env=environment(spark_version, host) | started_with,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log,
            )  # fmt: skip

    def begin(self, specification: dict) -> None:
        self.process.stdin.write(json.dumps(specification).encode() + b"\n")
        self.process.stdin.flush()

    def has_said(self) -> bool:
        """Returns whether the job has ended, or the process has."""
        return bool(readable([self.process.stdout], 0))

    def said(self) -> bool:
        """Waits for the end of the job. Returns false if it failed, which also ends the process."""
        return bool(self.process.stdout.readline())

    def logged(self) -> int:
        """Returns the current size of the log in bytes."""
        return self._log.stat().st_size

    def log(self, since: int) -> str:
        with self._log.open("rb") as log:
            log.seek(since)
            return log.read().decode(errors="replace")

    def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> None:
        self.process.stdin.close()
        self.process.wait(timeout_s)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


# One is enough: tests run one job at a time, and the tests of a line follow one another.
_idle: list[Driver] = []


def taken(spark_version: str, host: Host, conf: dict[str, str]) -> Driver:
    """Returns a driver for a job with this configuration."""
    kind = (spark_version, host, {key: conf[key] for key in OF_THE_JVM})
    if _idle and _idle[0].kind == kind and _idle[0].process.poll() is None:
        return _idle.pop()
    stop_idle()
    return Driver(*kind)


def give_back(driver: Driver) -> None:
    stop_idle()
    _idle.append(driver)


@atexit.register
def stop_idle(timeout_s: float = STOP_TIMEOUT_S) -> None:
    while _idle:
        _idle.pop().stop(timeout_s)


def environment(spark_version: str, host: Host = LOOPBACK) -> dict[str, str]:
    """Returns this process's environment, without variables that lead to another Spark."""
    kept = {k: v for k, v in os.environ.items() if k != "SPARK_CONF_DIR"}
    ours = {"PYTHONPATH": str(ROOT / "e2e"), "SPARK_LOCAL_IP": host.address}
    ours["SPARK_HOME"] = str(spark_home(spark_version))
    return {**kept, **ours, "PYSPARK_PYTHON": str(python_of(spark_version))}
