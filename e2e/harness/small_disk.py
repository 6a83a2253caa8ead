# SPDX-License-Identifier: Apache-2.0
"""Disks that may be filled: nobody else's bytes are on them."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MOST_BYTES = 1 << 30


@contextmanager
def small_disk(directory: Path, megabytes: int) -> Iterator[Path]:
    """A file system of its own at `directory`, in memory. Needs root."""
    directory.mkdir(parents=True)
    size = f"size={megabytes}m"
    subprocess.run(["mount", "-t", "tmpfs", "-o", size, "tmpfs", directory], check=True)
    try:
        yield directory
    finally:
        subprocess.run(["umount", "--lazy", directory], check=True)


def fill(path: Path) -> int:
    """Writes until there is no room; says how much. Never on a disk of the machine's: all of it
    would stand still."""
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
