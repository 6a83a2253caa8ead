# SPDX-License-Identifier: Apache-2.0
"""Disks that may be filled: they hold no other data."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MOST_BYTES = 1 << 30


@contextmanager
def small_disk(directory: Path, megabytes: int) -> Iterator[Path]:
    """Mounts a file system of its own at `directory`, in memory. Needs root."""
    directory.mkdir(parents=True)
    size = f"size={megabytes}m"
    subprocess.run(["mount", "-t", "tmpfs", "-o", size, "tmpfs", directory], check=True)
    try:
        yield directory
    finally:
        subprocess.run(["umount", "--lazy", directory], check=True)


def fill(path: Path) -> int:
    """Writes until there is no room; returns how much. It refuses a disk of the machine, which
    would stop working."""
    found = os.statvfs(path.parent)
    size = found.f_blocks * found.f_frsize
    assert size <= MOST_BYTES, f"{path.parent} is on a disk of {size} bytes, which is not small"
    written = 0
    with path.open("wb", buffering=0) as filler:
        for piece in (1 << 20, 1 << 12):
            try:
                while True:
                    written += filler.write(b"\0" * piece)
            except OSError:
                pass
    return written
