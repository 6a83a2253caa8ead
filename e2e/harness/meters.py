# SPDX-License-Identifier: Apache-2.0
"""CPU seconds and resident memory of processes, by their purpose, from /proc."""

import os
from collections.abc import Sequence
from pathlib import Path

from .processes import command_line, daemons_below, descendants

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
EXECUTOR = "org.apache.spark.executor.CoarseGrainedExecutorBackend"
KINDS = ("executors", "services", "driver")
# For /proc/PID/clear_refs: the peak starts again from what is resident now.
RESET_PEAK = "5"


class Meter:
    """Measures from its creation to `read`: CPU seconds and peak memory of an application and of
    the services that it uses. `cluster`: master and workers that have no other application."""

    def __init__(
        self, application: int, local: Path, services: list[int], cluster: Sequence[int] = ()
    ):
        self._roots = [application, *cluster]
        self._local = local
        self._services = services
        self._before = {}
        for pids in self._by_kind().values():
            for pid in pids:
                self._before[pid] = cpu_seconds(pid)
                reset_peak(pid)
        self._machine_before = machine_seconds()

    def others(self) -> dict[str, float]:
        """Returns the disturbances: CPU seconds of all processes of the machine, ours among them,
        and those that the host gave to other guests."""
        now = machine_seconds()
        return {name: round(now[name] - self._machine_before[name], 2) for name in now}

    def read(self) -> dict[str, dict[str, float]]:
        """Returns by kind the CPU seconds used, and the sum of the peaks of the processes in MB.
        New processes count from zero."""
        used = {}
        for kind, pids in self._by_kind().items():
            cpu = sum(cpu_seconds(pid) - self._before.get(pid, 0.0) for pid in pids)
            used[kind] = {"cpu": round(cpu, 2), "peakMb": round(sum(map(peak_mb, pids)), 1)}
        return used

    def _by_kind(self) -> dict[str, list[int]]:
        family = [pid for root in self._roots for pid in (root, *descendants(root))]
        services = {*self._services, *daemons_below(self._local)}
        executors = [pid for pid in family if EXECUTOR in command_line(pid)]
        rest = [pid for pid in family if pid not in services and pid not in executors]
        return dict(zip(KINDS, (executors, sorted(services), rest), strict=True))


def machine_seconds() -> dict[str, float]:
    words = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    user, nice, system, _idle, _waiting, irq, softirq, steal = map(int, words[:8])
    busy = user + nice + system + irq + softirq
    return {"machineCpu": busy / TICKS_PER_SECOND, "stolen": steal / TICKS_PER_SECOND}


def cpu_seconds(pid: int) -> float:
    """Returns user and system time of all threads; zero when the process is gone. Children count
    for themselves."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return 0.0
    # The name in field 2 may hold blanks: the fields after its closing bracket are regular.
    user, system = stat.rsplit(")", 1)[1].split()[11:13]
    return (int(user) + int(system)) / TICKS_PER_SECOND


def peak_mb(pid: int) -> float:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0.0
    peaks = [line.split()[1] for line in status.splitlines() if line.startswith("VmHWM:")]
    return int(peaks[0]) / 1024 if peaks else 0.0


def reset_peak(pid: int) -> None:
    try:
        Path(f"/proc/{pid}/clear_refs").write_text(RESET_PEAK)
    except OSError:
        pass  # gone, or not ours: its peak is that of its whole life
