# SPDX-License-Identifier: Apache-2.0
"""A disk as slow as an HDD for the processes of the matrix, and files that are on it and not in
memory."""

import os
import threading
from pathlib import Path

from harness.daemon import wait_until

V1 = Path("/sys/fs/cgroup/blkio")
V2 = Path("/sys/fs/cgroup")
HDD_READS_PER_SECOND = 150
# The period of the checks for the end of a stage, and of the removal of data that was read from
# memory.
LOOK_EVERY_S = 0.02
EMPTY_TIMEOUT_S = 10


class Throttle:
    """A cgroup of our own whose reads can be limited. `obstacle` has the reason if there is
    none."""

    def __init__(self, folder: Path):
        self.obstacle = ""
        name = f"lodestone-bench-{os.getpid()}"
        is_v1 = (V1 / "cgroup.procs").exists()
        self._group = (V1 if is_v1 else V2) / name
        limit = "blkio.throttle.read_iops_device" if is_v1 else "io.max"
        self._limit = self._group / limit
        self._on, self._off = ("{} {}", "{} 0") if is_v1 else ("{} riops={}", "{} riops=max")
        try:
            self._device = disk_of(folder)
            if not is_v1:
                (V2 / "cgroup.subtree_control").write_text("+io")
            self._group.mkdir()
            self.off()
        except OSError as error:
            self.obstacle = f"reads cannot be limited here ({error})"

    def add(self, pid: int) -> None:
        """Adds a process, and all that it starts from now on."""
        if not self.obstacle:
            (self._group / "cgroup.procs").write_text(str(pid))

    def on(self) -> None:
        self._limit.write_text(self._on.format(self._device, HDD_READS_PER_SECOND))

    def off(self) -> None:
        self._limit.write_text(self._off.format(self._device))

    def close(self) -> None:
        """Moves processes that still run (such as a daemon that is ending) to the parent group, and
        removes the group."""
        if self.obstacle:
            return
        for pid in (self._group / "cgroup.procs").read_text().split():
            try:
                (self._group.parent / "cgroup.procs").write_text(pid)
            except ProcessLookupError:
                pass  # it has ended
        wait_until(self._is_removed, f"{self._group} is empty", EMPTY_TIMEOUT_S)

    def _is_removed(self) -> bool:
        """Removes the group, which is busy for a moment after its last process has ended."""
        try:
            self._group.rmdir()
            return True
        except OSError:
            return False


def disk_of(folder: Path) -> str:
    """Returns `major:minor` of the whole disk that a folder is on: limits do not apply to
    partitions."""
    device = folder.stat().st_dev
    numbers = f"{os.major(device)}:{os.minor(device)}"
    block = Path(f"/sys/dev/block/{numbers}").resolve(strict=True)
    whole = block.parent if (block / "partition").exists() else block
    return (whole / "dev").read_text().strip()


def drop(folders: list[Path]) -> list[Path]:
    """Takes the files below folders out of memory. Returns them."""
    dropped = []
    # The walk continues if a folder is deleted meanwhile.
    walks = (step for folder in folders for step in os.walk(folder))
    for file in (Path(root, name) for root, _, names in walks for name in names):
        try:
            if file.is_file():
                take_out(file, is_dirty=True)
                dropped.append(file)
        except FileNotFoundError:
            continue  # deleted meanwhile
    return dropped


def take_out(file: Path, is_dirty: bool) -> None:
    """Takes a file out of memory. Dirty pages ignore the advice, so they are written first."""
    descriptor = os.open(file, os.O_RDONLY)
    try:
        if is_dirty:
            os.fdatasync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)


class ColdBetweenStages:
    """Keeps the data of a job out of memory while the job runs, as on a host whose memory is small
    compared with its shuffles. When a stage ends (a new file in `ended` is the signal) its data
    leaves memory, and again after it was read. The kernel may still read ahead."""

    def __init__(self, data: list[Path], ended: Path):
        self._data = data
        self._ended = ended
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> "ColdBetweenStages":
        self._thread.start()
        return self

    def __exit__(self, *_) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        known = set(os.listdir(self._ended))
        cold: list[Path] = []
        while not self._over.wait(LOOK_EVERY_S):
            now = set(os.listdir(self._ended))
            cold = drop(self._data) if now != known else still_cold(cold)
            known = now


def still_cold(files: list[Path]) -> list[Path]:
    """Takes files out of memory again. Returns those that still exist."""
    there = []
    for file in files:
        try:
            take_out(file, is_dirty=False)
            there.append(file)
        except FileNotFoundError:
            continue  # deleted meanwhile
    return there
