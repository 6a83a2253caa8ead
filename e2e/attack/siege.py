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


@dataclass(frozen=True)
class Times:
    """How long an attack lasts, and the time before and after it."""

    calm_s: float
    attack_s: float


@dataclass(frozen=True)
class Outcome:
    """What honest connections noticed, in seconds; the most memory that the daemon had."""

    name: str
    before_s: float
    during_s: float
    slowest_s: float
    after_s: float
    requests: int
    failures: list[str]
    peak_mib: float
    ended: bool
    notes: list[str]

    @property
    def recovered(self) -> bool:
        return self.after_s <= max(RECOVERED_S, 2 * self.before_s)


class Honest:
    """The process of the honest connections, and what it has reported."""

    def __init__(self, daemon: Daemon, connections: int):
        command = [sys.executable, "-m", "attack.honest", daemon.host.address, str(daemon.port)]
        self._process = subprocess.Popen(
            [*command, str(connections)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT / "e2e",
        )
        self._ended: list[tuple[float, float, str | None]] = []
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def end(self) -> list[tuple[float, float, str | None]]:
        """Returns begin, duration and failure of each request."""
        self._process.stdin.close()
        self._reader.join(END_TIMEOUT_S)
        self._process.wait(END_TIMEOUT_S)
        return self._ended

    def _read(self) -> None:
        for line in self._process.stdout:
            self._ended += map(tuple, json.loads(line))


def besiege(attack: Attack, times: Times, connections: int) -> Outcome:
    with tempfile.TemporaryDirectory(prefix="attack-") as name:
        root = Path(name)
        with attack.scene.stage(root) as stage:
            return _besiege(attack, times, connections, root, stage)


def _besiege(attack: Attack, times: Times, connections: int, root: Path, stage) -> Outcome:
    memory = f"{MEMORY_MIB}MiB"
    daemon = Daemon(root / "service", memory=memory, dirs=stage.directories)
    try:
        honest = Honest(daemon, connections)
        time.sleep(times.calm_s)
        calm_until = time.time()
        client = _start(attack, daemon, times.attack_s, root)
        began = time.time()
        with attack.scene.during(daemon, stage):
            time.sleep(times.attack_s)
        notes = _end(client) if client is not None else []
        ended = time.time()
        time.sleep(times.calm_s)
        requests = honest.end()
        peak = peak_mb(daemon.process.pid)
    finally:
        code = daemon.stop()
    return _outcome(attack.name, requests, (calm_until, began, ended), peak, code == 0, notes)


def _start(attack: Attack, daemon: Daemon, seconds: float, root: Path) -> subprocess.Popen | None:
    if attack.client is None:
        return None
    where = [daemon.host.address, str(daemon.port), str(seconds), str(root)]
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


def _outcome(name, requests, times, peak_mib: float, ended: bool, notes) -> Outcome:
    calm_until, began, over = times
    before = [took for at, took, _ in requests if at + took < calm_until]
    during = [took for at, took, _ in requests if at + took >= began and at < over]
    after = [took for at, took, _ in requests if at >= over]
    return Outcome(
        name=name,
        before_s=p99(before),
        during_s=p99(during),
        slowest_s=max(during, default=0.0),
        after_s=p99(after),
        requests=len(requests),
        failures=[failure for _, _, failure in requests if failure is not None],
        peak_mib=peak_mib,
        ended=ended,
        notes=notes,
    )


def p99(values: list[float]) -> float:
    if not values:
        return float("inf")
    return sorted(values)[min(len(values) - 1, len(values) * 99 // 100)]
