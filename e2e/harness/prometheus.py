# SPDX-License-Identifier: Apache-2.0
"""Prometheus and promtool, as Debian builds them, and a Prometheus that scrapes daemons."""

import json
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Sequence
from pathlib import Path

from .daemon import free_port, wait_until
from .paths import ROOT

PROGRAMS = ROOT / ".cache" / "prometheus" / "usr" / "bin"
STOP_TIMEOUT_S = 15


class NoPrometheus(Exception):
    """It is not here."""


def program(name: str) -> Path:
    """Returns `prometheus` or `promtool`."""
    if not (PROGRAMS / name).exists():
        raise NoPrometheus(f"run `make prometheus`, or put prometheus and promtool into {PROGRAMS}")
    return PROGRAMS / name


def promtool(*words: object, text: str | None = None) -> str:
    """Returns what promtool says, and fails with it if promtool finds a fault."""
    command = [program("promtool"), *map(str, words)]
    done = subprocess.run(command, input=text, capture_output=True, text=True)
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    return said


class Prometheus:
    """A server on loopback that scrapes admin endpoints every second."""

    def __init__(self, folder: Path, admin_ports: Sequence[int], rules: Path):
        folder.mkdir()
        targets = [f"127.0.0.1:{port}" for port in admin_ports]
        scrape = {"job_name": "lodestone", "static_configs": [{"targets": targets}]}
        every = {"scrape_interval": "1s", "evaluation_interval": "1s"}
        config = {"global": every, "rule_files": [str(rules)], "scrape_configs": [scrape]}
        # JSON is YAML too.
        (folder / "prometheus.yml").write_text(json.dumps(config))
        self._address = f"127.0.0.1:{free_port()}"
        self._log = folder / "log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [
                    program("prometheus"),
                    f"--config.file={folder}/prometheus.yml",
                    f"--storage.tsdb.path={folder}/data",
                    f"--web.listen-address={self._address}",
                ],
                stdout=log,
                stderr=log,
            )
        wait_until(self._is_ready, "Prometheus is ready")

    def _is_ready(self) -> bool:
        assert self._process.poll() is None, self._log.read_text()[-3000:]
        try:
            with urllib.request.urlopen(f"http://{self._address}/-/ready", timeout=5):
                return True
        except OSError:
            return False

    def query(self, expression: str) -> list[dict]:
        """Returns the series of an expression now."""
        return self._get("query", query=expression)["result"]

    def alerts(self) -> dict[str, dict]:
        """Returns the alerts by name, with their health."""
        groups = self._get("rules", type="alert")["groups"]
        return {rule["name"]: rule for group in groups for rule in group["rules"]}

    def _get(self, path: str, **parameters: str) -> dict:
        asked = urllib.parse.urlencode(parameters)
        url = f"http://{self._address}/api/v1/{path}?{asked}"
        with urllib.request.urlopen(url, timeout=10) as reply:
            return json.load(reply)["data"]

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(STOP_TIMEOUT_S)
