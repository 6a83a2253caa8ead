# SPDX-License-Identifier: Apache-2.0
"""A disk that a test can freeze. A process that writes to it waits until it thaws, in a call that
nothing can interrupt."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class FreezableDisk:
    """A file system of its own in a file. Needs root, and a loop device."""

    def __init__(self, directory: Path):
        self.directory = directory
        self._is_frozen = False

    def freeze(self) -> None:
        subprocess.run(["fsfreeze", "--freeze", self.directory], check=True)
        self._is_frozen = True

    def thaw(self) -> None:
        if self._is_frozen:
            subprocess.run(["fsfreeze", "--unfreeze", self.directory], check=True)
            self._is_frozen = False


@contextmanager
def freezable_disk(directory: Path, megabytes: int) -> Iterator[FreezableDisk]:
    """Mounts a disk at `directory`, and thaws it in the end: a process that hangs on it cannot end
    before."""
    directory.mkdir(parents=True)
    image = directory.with_suffix(".image")
    with image.open("wb") as file:
        file.truncate(megabytes << 20)
    subprocess.run(["mkfs.ext4", "-q", image], check=True)
    subprocess.run(["mount", "-o", "loop", image, directory], check=True)
    disk = FreezableDisk(directory)
    try:
        yield disk
    finally:
        disk.thaw()
        subprocess.run(["umount", "--lazy", directory], check=True)
