# SPDX-License-Identifier: Apache-2.0
"""One attack on one daemon, with honest connections before it, during it and after it."""

import json
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from harness.daemon import Daemon
from harness.meters import peak_mb
from harness.paths import ROOT

from .attacks import Attack

# As `--memory`. The limit of resident memory is this and 64 MiB.
MEMORY_MIB = 64
SLACK_MIB = 64
# A daemon has recovered if an honest request takes at most this long, or twice as long as before.
RECOVERED_S = 0.1
END_TIMEOUT_S = 60
BEGIN_TIMEOUT_S = 60


@dataclass(frozen=True)
class Times:
    """How long an attack lasts, and the time before and after it."""

    calm_s: float
    attack_s: float


@dataclass(frozen=True)
class Outcome:
    """What honest connections noticed, in seconds; the slowest answer to /health meanwhile; the
    most memory that the daemon had."""

    name: str
    before_s: float
    during_s: float
    slowest_s: float
    after_s: float
    health_s: float
    requests: int
    failures: list[str]
    # Failures of requests that began before the attack, or after it.
    failures_in_calm: list[str]
    peak_mib: float
    ended: bool
    notes: list[str]


# Begin, duration, and failure.
Ended = tuple[float, float, str | None]


class Honest:
    """The process of the honest connections, and what it has reported."""

    def __init__(self, daemon: Daemon, connections: int):
        numbers = map(str, (daemon.port, daemon.admin_port, connections))
        self._process = subprocess.Popen(
            [sys.executable, "-m", "attack.honest", daemon.host.address, *numbers],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT / "e2e",
        )
        self._connections = connections
        self._requests: list[Ended] = []
        self._health: list[Ended] = []
        self._have_begun = threading.Event()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def wait_until_begun(self) -> None:
        """Until there are as many answers as connections: the first ones wait for the start of an
        interpreter and of connections."""
        if not self._have_begun.wait(BEGIN_TIMEOUT_S):
            raise RuntimeError(f"honest connections had {len(self._requests)} answers")

    def end(self) -> tuple[list[Ended], list[Ended]]:
        """Returns the requests, and the questions for /health."""
        self._process.stdin.close()
        self._reader.join(END_TIMEOUT_S)
        self._process.wait(END_TIMEOUT_S)
        return self._requests, self._health

    def _read(self) -> None:
        for line in self._process.stdout:
            said = json.loads(line)
            self._requests += map(tuple, said["requests"])
            self._health += map(tuple, said["health"])
            if len(self._requests) >= self._connections:
                self._have_begun.set()


def besiege(attack: Attack, times: Times, connections: int) -> Outcome:
    with tempfile.TemporaryDirectory(prefix="attack-") as name:
        root = Path(name)
        with attack.scene.stage(root) as stage:
            return _besiege(attack, times, connections, root, stage)


def _besiege(attack: Attack, times: Times, connections: int, root: Path, stage) -> Outcome:
    memory = f"{MEMORY_MIB}MiB"
    attack_s = max(times.attack_s, attack.least_s)
    daemon = Daemon(root / "service", memory=memory, dirs=stage.directories)
    try:
        honest = Honest(daemon, connections)
        honest.wait_until_begun()
        calm_from = time.time()
        time.sleep(times.calm_s)
        calm_until = time.time()
        client = _start(attack, daemon, attack_s, root)
        began = time.time()
        with attack.scene.during(daemon, stage):
            time.sleep(attack_s)
        notes = _end(client) if client is not None else []
        ended = time.time()
        time.sleep(times.calm_s)
        ended_of_all = honest.end()
        peak = peak_mb(daemon.process.pid)
    finally:
        code = daemon.stop()
    phases = (calm_from, calm_until, began, ended)
    return _outcome(attack.name, ended_of_all, phases, peak, code == 0, notes)


def _start(attack: Attack, daemon: Daemon, seconds: float, root: Path) -> subprocess.Popen | None:
    if attack.client is None:
        return None
    ports = [str(daemon.port), str(daemon.admin_port)]
    where = [daemon.host.address, *ports, str(seconds), str(root)]
    command = [sys.executable, "-m", "attack.press", attack.client, *where]
    client = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT / "e2e")
    if client.stdout.readline() != "ready\n":
        raise RuntimeError(f"{attack.name} could not be prepared")
    return client


def _end(client: subprocess.Popen) -> list[str]:
    """Returns what the attacker says. One that waits for the service does not end by itself."""
    try:
        said, _ = client.communicate(timeout=2)
    except subprocess.TimeoutExpired:
        client.kill()
        said, _ = client.communicate()
    return said.splitlines()


def _outcome(name, ended_of_all, phases, peak_mib: float, ended: bool, notes) -> Outcome:
    requests, health = ended_of_all
    calm_from, calm_until, began, over = phases
    before = [took for at, took, _ in requests if at >= calm_from and at + took < calm_until]
    after = [took for at, took, _ in requests if at >= over]
    during = during_attack(requests, began, over)
    failed = [(at, failure) for at, _, failure in [*requests, *health] if failure is not None]
    return Outcome(
        name=name,
        before_s=p99(before),
        during_s=p99(during),
        slowest_s=max(during, default=0.0),
        after_s=p99(after),
        # None at all is no answer, either.
        health_s=max(during_attack(health, began, over), default=float("inf")),
        requests=len(requests),
        failures=[failure for _, failure in failed],
        failures_in_calm=[failure for at, failure in failed if not began <= at < over],
        peak_mib=peak_mib,
        ended=ended,
        notes=notes,
    )


def during_attack(all_ended: list[Ended], began: float, over: float) -> list[float]:
    return [took for at, took, _ in all_ended if at + took >= began and at < over]


def p99(values: list[float]) -> float:
    if not values:
        return float("inf")
    return sorted(values)[min(len(values) - 1, len(values) * 99 // 100)]
