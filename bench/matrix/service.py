# SPDX-License-Identifier: Apache-2.0
"""Spark's own external shuffle service, as a process."""

import re
import subprocess
from pathlib import Path

from harness.paths import spark_home

from .sides import BENCH

SOURCE = BENCH / "ess" / "SparkShuffleService.java"
STOP_TIMEOUT_S = 20


class ShuffleService:
    """A service on loopback, on a port of its own choice."""

    def __init__(self, spark: str, log: Path):
        jars = f"{spark_home(spark)}/jars/*"
        with log.open("wb") as errors:
            self._process = subprocess.Popen(
                ["java", "-Xmx1g", "-cp", jars, SOURCE],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True,
            )  # fmt: skip
        ready = re.search(r"ready .*?(\d+)$", self._process.stdout.readline())
        if ready is None:
            raise RuntimeError(f"Spark's shuffle service did not start: see {log}")
        self.port = int(ready[1])

    @property
    def pid(self) -> int:
        return self._process.pid

    def stop(self) -> None:
        self._process.stdin.close()
        try:
            self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
