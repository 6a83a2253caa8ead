# SPDX-License-Identifier: Apache-2.0
"""The applications of all sides: started when first needed, warm before they are measured, started anew after a failure."""

from . import disk
from .session import Failed, Session
from .sides import BY_NAME, Setting
from .workloads import Workload

# A side that does not even start is not tried for ever.
MOST_FAILED_STARTS = 2


class Sessions:
    def __init__(
        self, setting: Setting, throttle: disk.Throttle, jobs: list[Workload], limit_s: float
    ):
        self._setting = setting
        self._throttle = throttle
        self._jobs = jobs
        self._limit_s = limit_s
        self._running: dict[str, Session] = {}
        self._failed_starts: dict[str, list[str]] = {}

    def run(self, side: str, job: str, sizes: dict, throttled: bool) -> dict:
        """Raises `Failed`; the next run is in a new application."""
        session = self.warm(side)
        try:
            return session.run(job, sizes, self._throttle if throttled else None)
        except Failed:
            self._end(side)
            raise

    def warm(self, side: str) -> Session:
        """Has run each job once, so that its classes are loaded and compiled."""
        if side in self._running:
            return self._running[side]
        failures = self._failed_starts.setdefault(side, [])
        if len(failures) >= MOST_FAILED_STARTS:
            raise Failed(failures[-1])
        try:
            session = Session(BY_NAME[side], self._setting, self._throttle, self._limit_s)
            self._running[side] = session
            for job in self._jobs:
                session.run(job.name, job.warm_up)
        except Failed as failed:
            failures.append(f"at its start: {failed}")
            self._end(side)
            raise
        return session

    def _end(self, side: str) -> None:
        session = self._running.pop(side, None)
        if session is not None:
            session.stop()

    def stop(self) -> None:
        for side in list(self._running):
            self._end(side)
