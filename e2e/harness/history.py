# SPDX-License-Identifier: Apache-2.0
"""Spark's History Server on loopback, with the event logs of one folder."""

import json
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from . import jvm
from .daemon import free_port, wait_until
from .paths import plugin_jar, spark_home

START_TIMEOUT_S = 120


class HistoryServer:
    """A server that runs. With `has_plugin` its class path has the plugin's jar."""

    def __init__(self, spark_version: str, logs: Path, folder: Path, has_plugin: bool):
        self._port = free_port()
        self._log = folder / f"history-{self._port}.txt"
        jars = f"{spark_home(spark_version)}/jars/*"
        settings = {
            "spark.history.fs.logDirectory": logs.as_uri(),
            "spark.history.ui.port": str(self._port),
            "spark.history.fs.cleaner.enabled": "false",
        }
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [
                    "java", *jvm.SHORT_LIVED,
                    *(f"-D{key}={value}" for key, value in settings.items()),
                    "-cp", f"{plugin_jar(spark_version)}:{jars}" if has_plugin else jars,
                    "org.apache.spark.deploy.history.HistoryServer",
                ],
                stdout=log, stderr=subprocess.STDOUT,
                env={"SPARK_LOCAL_IP": "127.0.0.1", "PATH": "/usr/bin:/bin"},
            )  # fmt: skip

    def application(self) -> str:
        """Waits for the one application, and returns the address of its pages."""
        wait_until(lambda: self._applications(), "the History Server", START_TIMEOUT_S)
        (application,) = self._applications()
        return f"{self._address}/history/{application['id']}"

    def log(self) -> str:
        return self._log.read_text(errors="replace")

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(START_TIMEOUT_S)

    @property
    def _address(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def _applications(self) -> list[dict]:
        assert self._process.poll() is None, self.log()[-4000:]
        try:
            return json.loads(page(f"{self._address}/api/v1/applications"))
        except (OSError, json.JSONDecodeError):
            # Spark listens before it has added its handlers (WebUI.bind): until then the first
            # page answers for every address.
            return []


@contextmanager
def history_server(
    spark_version: str, logs: Path, folder: Path, has_plugin: bool = True
) -> Iterator[HistoryServer]:
    server = HistoryServer(spark_version, logs, folder, has_plugin)
    try:
        yield server
    finally:
        server.stop()


def page(address: str) -> str:
    with urllib.request.urlopen(address, timeout=START_TIMEOUT_S) as answer:
        return answer.read().decode()
