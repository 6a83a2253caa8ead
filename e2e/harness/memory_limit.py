# SPDX-License-Identifier: Apache-2.0
"""A limit of the memory of processes, as containers have one. Needs root, and a memory controller
of control groups, version 1 or 2."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")


def controller() -> tuple[Path, str] | None:
    """Returns the folder of this machine's memory controller, and its file for a limit; None if it
    has no controller that may be used."""
    if (ROOT / "memory" / "memory.limit_in_bytes").exists():
        return ROOT / "memory", "memory.limit_in_bytes"
    control = ROOT / "cgroup.subtree_control"
    if control.exists() and "memory" in control.read_text().split():
        return ROOT, "memory.max"
    return None


@contextmanager
def memory_limit(megabytes: int) -> Iterator[tuple[str, ...]]:
    """Yields the words before a command that has at most so much memory: the system kills it when
    it needs more. All such processes must have ended when the caller leaves."""
    folder, file = controller()
    group = folder / f"lodestone-{os.getpid()}"
    group.mkdir()
    try:
        (group / file).write_text(str(megabytes << 20))
        yield ("sh", "-c", f'echo $$ > {group}/cgroup.procs && exec "$0" "$@"')
    finally:
        group.rmdir()
