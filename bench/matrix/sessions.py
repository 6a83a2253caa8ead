# SPDX-License-Identifier: Apache-2.0
"""The applications of all sides. They start when they are first needed, and are warm before they
are measured; after a failure there is a new one.

Cold ones are new for each run.
"""

import random
import subprocess
from contextlib import ExitStack

from . import disk, network
from .session import Failed, Session
from .sides import BY_NAME, Setting
from .workloads import Sizes

# A side that fails to start this often is not tried again.
MOST_FAILED_STARTS = 2
# Errors that a run may raise.
TROUBLES = (Failed, OSError, RuntimeError, subprocess.CalledProcessError)


class Sessions:
    """The applications on one disk, or on the hosts of a network. `warm_up`: the jobs and sizes
    that an application does once before it is measured.

    None: each run has a new application, which does nothing before.
    """

    def __init__(
        self,
        setting: Setting,
        throttle: disk.Throttle,
        warm_up: dict[str, Sizes] | None,
        limit_s: float,
        disk_name: str,
    ):
        self._setting = setting
        self._throttle = throttle
        self._warm_up = warm_up
        self._limit_s = limit_s
        self._disk_name = disk_name
        self._is_throttled = disk_name == "throttled"
        self._running: dict[str, Session] = {}
        self._failed_starts: dict[str, list[str]] = {}
        self._hosts: network.Hosts | None = None
        self._open = ExitStack()

    def __enter__(self) -> "Sessions":
        if self._disk_name == network.NAME:
            self._hosts = self._open.enter_context(network.hosts(self._setting.executors))
        return self

    def __exit__(self, *_) -> None:
        with self._open:
            self._throttled(False)
            for side in list(self._running):
                self._end(side)

    def _throttled(self, wanted: bool) -> None:
        """Switches the throttle. The end of JVMs is not measured, so they may read at full speed
        then."""
        if self._is_throttled and wanted:
            self._throttle.on()
        elif self._is_throttled:
            self._throttle.off()

    def run(self, side: str, job: str, sizes: dict) -> dict:
        """Runs a job. After `Failed` the next run is in a new application."""
        session = self.warm(side)
        self._throttled(True)
        is_last = self._warm_up is None
        try:
            return session.run(job, sizes, is_cold=self._is_throttled)
        except Failed:
            is_last = True
            raise
        finally:
            if is_last:
                self._end(side)

    def warm(self, side: str) -> Session:
        """Returns an application that has run each job once, so that its classes are loaded and
        compiled."""
        if side in self._running:
            return self._running[side]
        failures = self._failed_starts.setdefault(side, [])
        if len(failures) >= MOST_FAILED_STARTS:
            raise Failed(failures[-1])
        # Throttle before the first executor starts: each measures its disk.
        self._throttled(True)
        try:
            memory = BY_NAME[side].daemons_on(self._disk_name)
            session = Session(
                BY_NAME[side], self._setting, self._throttle, self._limit_s, memory, self._hosts
            )
            self._running[side] = session
            for job, sizes in (self._warm_up or {}).items():
                session.run(job, sizes, is_cold=False)
        except Failed as failed:
            failures.append(f"at its start: {failed}")
            self._end(side)
            raise
        return session

    def _end(self, side: str) -> None:
        self._throttled(False)
        session = self._running.pop(side, None)
        if session is not None:
            session.stop()


def order(names: list[str], number: int) -> list[str]:
    """Returns a random order, which is reversed in every other round: no side always has the same
    one before it."""
    turn = random.Random(number // 2).sample(names, len(names))
    return turn[::-1] if number % 2 else turn
