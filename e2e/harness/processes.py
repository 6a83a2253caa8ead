# SPDX-License-Identifier: Apache-2.0
"""Looks at /proc: which daemons and executors belong to a test's job."""

import os
import signal
from pathlib import Path


def command_line(pid: int) -> list[str]:
    """Returns the arguments of a process, empty if it is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")[:-1]
    except OSError:
        return []


def _parent(pid: int) -> int:
    try:
        # The name in field 2 may hold blanks: the fields after its closing bracket are regular.
        return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
    except OSError:
        return 0


def all_pids() -> list[int]:
    return [int(entry) for entry in os.listdir("/proc") if entry.isdigit()]


def daemons_below(directory: Path) -> list[int]:
    """Returns daemons that keep their data somewhere below a directory."""

    def serves(arguments: list[str]) -> bool:
        return "serve" in arguments and any(str(directory) in word for word in arguments)

    return [pid for pid in all_pids() if serves(command_line(pid)) and not is_zombie(pid)]


def is_zombie(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except OSError:
        return True


def descendants(pid: int) -> list[int]:
    """Returns everything that a process started, directly or not, and that is still its
    descendant."""
    parents = {one: _parent(one) for one in all_pids()}
    found, frontier = [], {pid}
    while frontier:
        frontier = {child for child, parent in parents.items() if parent in frontier}
        found.extend(frontier)
    return found


def executors_of(pid: int) -> list[int]:
    """Returns the executor JVMs of a local-cluster application."""
    backend = "org.apache.spark.executor.CoarseGrainedExecutorBackend"
    return [one for one in descendants(pid) if backend in command_line(one)]


def other_executor(pid: int, task: int) -> int:
    """Returns the executor of two on which a Python task does not run."""
    (other,) = [one for one in executors_of(pid) if task not in descendants(one)]
    return other


def kill_tree(pid: int) -> None:
    """Sends SIGKILL to a process and its descendants, but not to daemons in a session of their
    own."""
    for one in [pid, *descendants(pid)]:
        if "serve" not in command_line(one):
            os.kill(one, signal.SIGKILL)
