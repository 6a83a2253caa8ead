# SPDX-License-Identifier: Apache-2.0
"""A real daemon that a test starts, pauses, kills and restarts by its process id."""

import json
import os
import re
import signal
import socket
import subprocess
import threading
import time
import urllib.request
from collections.abc import Iterable, Sequence
from pathlib import Path

from .hosts import LOOPBACK, Host
from .paths import DAEMON
from .readable import readable

START_TIMEOUT_S = 10
STOP_TIMEOUT_S = 15


class Daemon:
    """One daemon, on loopback if no other host is named. `host_port` stays the same over a
    restart."""

    def __init__(
        self,
        directory: Path,
        host: Host = LOOPBACK,
        port: int = 0,
        memory: str = "256MiB",
        reserve: str = "0b",  # how full the disk of the test machine is decides nothing
        extra: tuple[str, ...] = (),
        dirs: Sequence[Path] = (),
        program: tuple[str | Path, ...] = (DAEMON,),
    ):
        self.host = host
        self.directory = Path(directory)
        self.directory.mkdir(parents=True, exist_ok=True)
        self.log = self.directory.with_suffix(".log")
        self.memory = memory
        self.reserve = reserve
        self.extra = extra
        self.dirs = dirs or [self.directory]
        self.program = program
        self.port = port
        self.admin_port = 0
        self.ready: dict[str, str] = {}
        self._resume_timer: threading.Timer | None = None
        self.start()

    @property
    def host_port(self) -> str:
        return f"{self.host.address}:{self.port}"

    def start(self) -> None:
        """Starts and waits for the line that says it is ready."""
        command = [
            *self.host.enter, *self.program, "serve",
            "--listen", self.host_port,
            "--admin", f"127.0.0.1:{self.admin_port}",
            "--dir", ",".join(map(str, self.dirs)),
            "--memory", self.memory,
            "--reserve", self.reserve,
            *self.extra,
        ]  # fmt: skip
        log = open(self.log, "ab")
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        log.close()
        self.ready = parse_ready(read_line(self.process, START_TIMEOUT_S, self.log))
        self.port = int(self.ready["listen"].rsplit(":", 1)[1])
        self.admin_port = int(self.ready["admin"].rsplit(":", 1)[1])

    def kill(self) -> None:
        """Sends SIGKILL, as if the machine had crashed."""
        self.process.kill()
        self.process.wait(STOP_TIMEOUT_S)

    def restart(self) -> None:
        """Kills the daemon, and starts it on the same port as another incarnation."""
        before = self.ready["incarnation"]
        self.kill()
        self.start()
        assert self.ready["incarnation"] != before

    def restart_in_order(self) -> None:
        """Stops the daemon, which hands its shuffles over, and starts it again on the same port."""
        before = self.ready["incarnation"]
        assert self.stop() == 0
        self.start()
        assert self.ready["incarnation"] == before, self.log.read_text()[-3000:]

    def drain(self, *arguments: str) -> subprocess.Popen:
        """Starts `lodestone drain` on the daemon's host. It ends when the daemon has ended."""
        return subprocess.Popen(
            [*self.host.enter, DAEMON, "drain", "--service", self.host_port, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def pause(self) -> None:
        """Sends SIGSTOP: the daemon exists, and does nothing."""
        os.kill(self.process.pid, signal.SIGSTOP)

    def pause_for(self, seconds: float) -> None:
        """Pauses now and resumes later, while the caller continues."""
        self.pause()
        self._resume_timer = threading.Timer(seconds, self.resume)
        self._resume_timer.start()

    def resume(self) -> None:
        """Sends SIGCONT."""
        if self.process.poll() is None:
            os.kill(self.process.pid, signal.SIGCONT)

    def status(self) -> dict:
        """Returns the answer of the admin endpoint."""
        url = f"http://127.0.0.1:{self.admin_port}/status"
        with urllib.request.urlopen(url, timeout=5) as reply:
            return json.load(reply)

    def applications(self) -> list[dict]:
        """Returns what the admin endpoint says of the applications with most bytes."""
        url = f"http://127.0.0.1:{self.admin_port}/applications"
        with urllib.request.urlopen(url, timeout=5) as reply:
            return json.load(reply)["applications"]

    def counts(self) -> dict[str, int]:
        """Returns the counters of the admin endpoint."""
        return counts_at(self.admin_port)

    def counts_by_code(self, name: str) -> dict[str, int]:
        """Returns a counter of the admin endpoint that has the label `code`."""
        url = f"http://127.0.0.1:{self.admin_port}/metrics"
        with urllib.request.urlopen(url, timeout=5) as reply:
            text = reply.read().decode()
        line = rf'^lodestone_{name}_total{{code="(\w+)"}} (\d+)$'
        return {code: int(value) for code, value in re.findall(line, text, re.MULTILINE)}

    def stop(self) -> int:
        """Sends SIGTERM, and returns the exit code."""
        if self._resume_timer is not None:
            self._resume_timer.cancel()
        self.resume()
        if self.process.poll() is None:
            self.process.terminate()
        return self.process.wait(STOP_TIMEOUT_S)


def counts_at(admin_port: int) -> dict[str, int]:
    """Returns the counters of an admin endpoint, without `lodestone_` and `_total`."""
    url = f"http://127.0.0.1:{admin_port}/metrics"
    with urllib.request.urlopen(url, timeout=5) as reply:
        found = re.findall(r"^lodestone_(\w+)_total (\d+)$", reply.read().decode(), re.MULTILINE)
    return {name: int(value) for name, value in found}


def services_of(daemons: Iterable[Daemon]) -> str:
    """Returns the value of `spark.lodestone.services` for these daemons."""
    return ",".join(daemon.host_port for daemon in daemons)


def free_port() -> int:
    """Returns a port of loopback on which no process listens."""
    with socket.create_server(("127.0.0.1", 0)) as unused:
        return unused.getsockname()[1]


def read_line(process: subprocess.Popen, timeout_s: float, log: Path) -> str:
    """Returns the first line on stdout, or raises an error that shows the log."""
    line = process.stdout.readline() if readable([process.stdout], timeout_s) else ""
    if not line:
        process.kill()
        process.wait()
        raise RuntimeError(f"the daemon did not become ready:\n{log.read_text()[-4000:]}")
    return line


def parse_ready(line: str) -> dict[str, str]:
    """Returns `lodestone ready listen=127.0.0.1:7337 incarnation=… pid=…` as a dict."""
    assert line.startswith("lodestone ready "), line
    return dict(word.split("=", 1) for word in line.split()[2:])


def wait_until(condition, what: str, timeout_s: float = 30.0, every_s: float = 0.05):
    """Polls something that has no event to wait for; returns its first true value."""
    deadline = time.monotonic() + timeout_s
    pause = threading.Event()
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {timeout_s} s: {what}")
        pause.wait(every_s)
