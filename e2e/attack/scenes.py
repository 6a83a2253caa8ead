# SPDX-License-Identifier: Apache-2.0
"""The disks of an attacked daemon, and what happens to them or to the daemon meanwhile."""

import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from harness.daemon import Daemon
from harness.faulty_disk import FaultyDisk, faulty_disk

DISK_MEGABYTES = 512
SLOW_BYTES_PER_S = 40e6
REMOVE_EACH_S = 0.1


@dataclass(frozen=True)
class Stage:
    """The data directories, with the disks that can be made to fail."""

    directories: list[Path]
    disks: list[FaultyDisk]


@dataclass(frozen=True)
class Scene:
    """`during` is entered when the attack begins, and left when it ends."""

    what: str
    faulty_disks: int
    plain_disks: int
    during: Callable[[Daemon, Stage], AbstractContextManager]

    @contextmanager
    def stage(self, root: Path) -> Iterator[Stage]:
        with ExitStack() as stack:
            disks = [
                stack.enter_context(faulty_disk(root / f"faulty-{number}", DISK_MEGABYTES))
                for number in range(self.faulty_disks)
            ]
            plain = [root / f"disk-{number}" for number in range(self.plain_disks)]
            for directory in plain:
                directory.mkdir(parents=True)
            yield Stage([*(disk.directory for disk in disks), *plain], disks)


@contextmanager
def _nothing(daemon: Daemon, stage: Stage) -> Iterator[None]:
    yield


@contextmanager
def _hang(daemon: Daemon, stage: Stage) -> Iterator[None]:
    stage.disks[0].hang()
    yield
    stage.disks[0].thaw()


@contextmanager
def _fill(daemon: Daemon, stage: Stage) -> Iterator[None]:
    for disk in stage.disks:
        disk.fill()
    yield
    for disk in stage.disks:
        disk.make_room()


@contextmanager
def _fail(daemon: Daemon, stage: Stage) -> Iterator[None]:
    stage.disks[0].fail()
    yield
    stage.disks[0].mend()


@contextmanager
def _remove_files(daemon: Daemon, stage: Stage) -> Iterator[None]:
    over = threading.Event()
    removed = []

    def remove() -> None:
        while not over.wait(REMOVE_EACH_S):
            for directory in stage.directories:
                for shuffle in directory.glob("lodestone-*/hostile-*"):
                    shutil.rmtree(shuffle, ignore_errors=True)
                    removed.append(shuffle)

    thread = threading.Thread(target=remove)
    thread.start()
    yield
    over.set()
    thread.join()
    if not removed:
        raise RuntimeError("the attacker had no files")


@contextmanager
def _freeze(daemon: Daemon, stage: Stage) -> Iterator[None]:
    daemon.pause()
    yield
    daemon.resume()


@contextmanager
def _slow(daemon: Daemon, stage: Stage) -> Iterator[None]:
    stage.disks[0].limit(SLOW_BYTES_PER_S)
    yield


SCENES = {
    "plain": Scene("Nothing happens to the disk.", 0, 1, _nothing),
    "hanging-disk": Scene("One of two disks hangs.", 1, 1, _hang),
    "slow-disk": Scene("The disk writes 40 MB/s.", 1, 0, _slow),
    "full-disks": Scene("Both disks are full.", 2, 0, _fill),
    "failing-disk": Scene("One of two disks gives errors.", 1, 1, _fail),
    "files-removed": Scene(
        "Another hand removes the files of the attacker's shuffle.", 0, 1, _remove_files
    ),
    "frozen-daemon": Scene("The daemon is stopped, and continues.", 0, 1, _freeze),
}
