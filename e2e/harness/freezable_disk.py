# SPDX-License-Identifier: Apache-2.0
"""A disk that can be made to hang: who writes to it waits, in a call that nothing can end, until it
thaws."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class FreezableDisk:
    """A file system of its own in a file. Needs root, and a loop device."""

    def __init__(self, place: Path):
        self.place = place
        self._is_frozen = False

    def freeze(self) -> None:
        subprocess.run(["fsfreeze", "--freeze", self.place], check=True)
        self._is_frozen = True

    def thaw(self) -> None:
        if self._is_frozen:
            subprocess.run(["fsfreeze", "--unfreeze", self.place], check=True)
            self._is_frozen = False


@contextmanager
def freezable_disk(place: Path, megabytes: int) -> Iterator[FreezableDisk]:
    """Mounted at `place`, and thawed in the end: nobody who hangs can be ended before."""
    place.mkdir(parents=True)
    image = place.with_suffix(".image")
    with image.open("wb") as file:
        file.truncate(megabytes << 20)
    subprocess.run(["mkfs.ext4", "-q", image], check=True)
    subprocess.run(["mount", "-o", "loop", image, place], check=True)
    disk = FreezableDisk(place)
    try:
        yield disk
    finally:
        disk.thaw()
        subprocess.run(["umount", "--lazy", place], check=True)
