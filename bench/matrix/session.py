# SPDX-License-Identifier: Apache-2.0
"""One side's application as the bench sees it: it stays up for the whole run, so that its JVMs are
warm when they are measured."""

import json
import os
import re
import shutil
import signal
import subprocess
import threading
from collections.abc import Mapping
from contextlib import ExitStack
from itertools import cycle

from harness.daemon import Daemon
from harness.driver import environment
from harness.hosts import LOOPBACK
from harness.meters import Meter
from harness.paths import ROOT, python_of
from harness.processes import daemons_below, kill_tree

from . import disk
from .network import Hosts
from .service import ShuffleService
from .sides import BENCH, CACHE, Setting, Side, home, settings

# Three JVMs, on a machine that may be busy.
START_TIMEOUT_S = 600
STOP_TIMEOUT_S = 60
LOG_TAIL_BYTES = 200_000
REASON_CHARACTERS = 300


class Failed(Exception):
    """A side could not do the job; the message has the reason."""


class Session:
    """An application, which starts at once. After `Failed` it is dead: stop it, and start another
    one. `daemons`: the memory of each daemon that the bench starts for it. `hosts`: where it has a
    cluster of its own; by default all are on loopback."""

    def __init__(
        self,
        side: Side,
        setting: Setting,
        throttle: disk.Throttle,
        job_timeout_s: float,
        daemons: tuple[str, ...],
        hosts: Hosts | None = None,
    ):
        if side.service and hosts:
            raise Failed("Spark's shuffle service runs on loopback only")
        self.side = side
        self._hosts = hosts
        self._job_timeout_s = job_timeout_s
        self._folder = CACHE / f"{setting.spark}-{side.name}"
        shutil.rmtree(self._folder, ignore_errors=True)
        self._local = self._folder / "local"
        self._ended = self._folder / "ended"
        for folder in (self._local, self._ended):
            folder.mkdir(parents=True)
        self._log = self._folder / "log.txt"
        self._service = None
        if side.service:
            self._service = ShuffleService(setting.spark, self._folder / "service.txt")
            throttle.add(self._service.pid)
        places = hosts.executors if hosts else [LOOPBACK]
        self._daemons = [
            Daemon(self._folder / f"service{number}", place, memory=memory)
            for number, (place, memory) in enumerate(zip(cycle(places), daemons, strict=False))
        ]
        # The data of shuffles is in these.
        self._data = [self._local, *(daemon.directory for daemon in self._daemons)]
        for daemon in self._daemons:
            throttle.add(daemon.process.pid)
        port = self._service.port if self._service else 0
        addresses = [daemon.host_port for daemon in self._daemons]
        conf = settings(side, setting, self._folder, port, addresses)
        self._cluster = None
        if hosts:
            self._cluster = hosts.cluster(setting, self._local / "cluster")
            conf |= {
                "spark.master": self._cluster.master,
                "spark.driver.host": hosts.driver.address,
            }
        self._process = self._start(setting, conf)
        throttle.add(self._process.pid)
        try:
            self._next_event("ready", START_TIMEOUT_S)
        except Failed:
            self.stop()
            raise

    def _start(self, setting: Setting, conf: dict[str, str]) -> subprocess.Popen:
        paths = {"tables": str(setting.tables), "ended": str(self._ended)}
        specification = json.dumps({"conf": conf, **paths})
        host = self._hosts.driver if self._hosts else LOOPBACK
        env = environment(setting.spark, host)
        env["PYTHONPATH"] = f"{ROOT / 'e2e'}:{BENCH}"
        env["SPARK_HOME"] = str(home(self.side, setting.spark))
        with self._log.open("wb") as errors:
            return subprocess.Popen(
                [*host.enter, python_of(setting.spark), "-m", "matrix.worker", specification],
                cwd=self._folder, env=env, text=True,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors,
            )  # fmt: skip

    @property
    def daemons(self) -> list[Daemon]:
        """The daemons that the bench started for it."""
        return self._daemons

    def run(self, job: str, sizes: Mapping[str, object], is_cold: bool) -> dict:
        """Runs one job. Returns the worker's result, and the figures of the side's processes. Cold:
        data that stages wrote is not in memory when it is read."""
        services = [self._service.pid] if self._service else []
        services += [daemon.process.pid for daemon in self._daemons]
        cluster = self._cluster.pids if self._cluster else []
        meter = Meter(self._process.pid, self._local, services, cluster)
        sent = self._hosts.sent() if self._hosts else 0
        self._say({"job": job, "sizes": dict(sizes), "pause": is_cold})
        with ExitStack() as cold:
            if is_cold:
                cold.enter_context(disk.ColdBetweenStages(self._data, self._ended))
            answered = self._next_event("answered", self._job_timeout_s)
            used, machine = meter.read(), meter.others()
        if self._hosts:
            answered["sent"] = self._hosts.sent() - sent
        self._say({})
        done = self._next_event("done", self._job_timeout_s)
        return {**answered, **done, "used": used, "machine": machine}

    def stop(self) -> None:
        """Waits until the application has ended, or kills it; also ends the daemons that it
        started."""
        if not self._process.stdin.closed:
            self._process.stdin.close()
        try:
            self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._kill()
            self._process.wait()
        if self._cluster:
            self._cluster.stop()
        for pid in daemons_below(self._local):
            os.kill(pid, signal.SIGTERM)
        if self._service:
            self._service.stop()
        for daemon in self._daemons:
            daemon.stop()
        shutil.rmtree(self._local, ignore_errors=True)

    def _kill(self) -> None:
        """Kills its JVMs too: they hold the pipe that is read from."""
        try:
            kill_tree(self._process.pid)
        except ProcessLookupError:
            self._process.kill()  # one of them was quicker

    def _say(self, what: dict) -> None:
        try:
            print(json.dumps(what), file=self._process.stdin, flush=True)
        except BrokenPipeError:
            raise Failed(self._reason()) from None

    def _next_event(self, event: str, timeout_s: float) -> dict:
        """Returns the next event, which must be this one. Between the stages of a job on the slow
        disk nothing stays in memory."""
        line = self._line(timeout_s)
        if line.get("event") == "mapped":
            disk.drop(self._data)
            self._say({})
            line = self._line(timeout_s)
        if line.pop("event") != event:
            raise Failed(f"out of turn: {line}")
        return line

    def _line(self, timeout_s: float) -> dict:
        late = threading.Event()

        def give_up():
            late.set()
            self._kill()

        watchdog = threading.Timer(timeout_s, give_up)
        watchdog.start()
        try:
            line = self._process.stdout.readline()
        finally:
            # Cancel it also when the bench is interrupted. Otherwise it would stay until its time
            # is over, and kill the process that has this number then.
            watchdog.cancel()
        if not line:
            self._process.wait()
            raise Failed(f"not within {timeout_s:.0f} s" if late.is_set() else self._reason())
        return json.loads(line)

    def _reason(self) -> str:
        """Returns the most useful sentence of the log: the last cause, or the last exception."""
        tail = self._log.read_bytes()[-LOG_TAIL_BYTES:].decode(errors="replace")
        causes = re.findall(r"^(?:Caused by: |[\w.]*(?:Exception|Error): ).*$", tail, re.MULTILINE)
        sentence = causes[-1] if causes else f"it ended with {self._process.returncode}"
        return f"{sentence[:REASON_CHARACTERS]} ({self._log})"
