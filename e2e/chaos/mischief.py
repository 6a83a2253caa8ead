# SPDX-License-Identifier: Apache-2.0
"""Does harm to services, executors and their disks, as a plan says, until the job is over."""

import errno
import os
import random
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from harness.cluster import Cluster
from harness.daemon import Daemon
from harness.faulty_disk import FaultyDisk
from harness.freezable_disk import FreezableDisk
from harness.small_disk import fill
from harness.spark_process import SparkProcess

from .data_files import data_files
from .local_disks import LOCAL_ACTS
from .plan import LASTING, Act

Deed = Callable[[Daemon], object]
# An act on a service ends before the next act begins, except for what other threads undo.
UNDO_TIMEOUT_S = 20


@dataclass
class Victims:
    """Executors, services and their disks; the disks of executors, and the pipe by which their
    tasks are killed."""

    cluster: Cluster
    daemons: list[Daemon]
    disks: list[FreezableDisk]
    local_disks: list[FaultyDisk]
    kills: Path


class Mischief:
    """Does one act after another. It mends each fault after a while, except those that a plan makes
    for good."""

    def __init__(self, victims: Victims, say: Callable[[str], None]):
        self._cluster = victims.cluster
        self._daemons = victims.daemons
        self._disks = victims.disks
        self._local_disks = victims.local_disks
        self._kills = victims.kills
        self._say = say
        # At most one disk is broken for good: without any disk no executor could work.
        self._broken: FaultyDisk | None = None
        self._over = threading.Event()
        self._luck = random.Random()
        self._acts: dict[str, Callable[[SparkProcess], str]] = {
            "kill an executor": self._kill_executor,
            "kill a task": self._kill_task,
            "kill a service": self._kill_service,
            "restart a service in order": self._restart_in_order,
            "freeze a service": self._freeze,
            "fill a disk": self._fill,
            "hang a disk": self._hang,
            "damage what is on a disk": self._damage,
            "drain a service for a while": self._drain,
        }
        for what in LOCAL_ACTS:
            self._acts[what] = partial(self._hit_local_disk, what)
        self.counts: dict[str, int] = {}

    def run(self, acts: list[Act], job: SparkProcess) -> None:
        """Does acts until the plan or the job ends. Raises the error of an act."""
        for act in acts:
            if self._pause(act.after_s) or not job.runs():
                break
            self._luck = random.Random(act.luck)
            done = self._acts[act.what](job)
            if done:
                self.counts[act.what] = self.counts.get(act.what, 0) + 1
                self._say(f"{act.what}: {done}")

    def stop(self) -> None:
        """Ends the acts, because the job is over."""
        self._over.set()

    def _pause(self, seconds: float) -> bool:
        return self._over.wait(seconds)

    def _service(self) -> Daemon:
        return self._luck.choice(self._daemons)

    def _kill_executor(self, _job: SparkProcess) -> str:
        executors = self._cluster.executors()
        if not executors:
            return ""
        victim = self._luck.choice(sorted(executors))
        os.kill(victim, signal.SIGKILL)
        return f"process {victim}"

    def _kill_task(self, _job: SparkProcess) -> str:
        luck = self._luck.getrandbits(30)
        try:
            pipe = os.open(self._kills, os.O_WRONLY | os.O_NONBLOCK)
        except OSError as no_reader:
            assert no_reader.errno == errno.ENXIO
            return ""
        with os.fdopen(pipe, "w") as kills:
            kills.write(f"{luck}\n")
        return f"with luck {luck}"

    def _hit_local_disk(self, what: str, _job: SparkProcess) -> str:
        whole = [disk for disk in self._local_disks if disk is not self._broken]
        disk = self._luck.choice(whole)
        if what in LASTING:
            self._broken = disk
        return LOCAL_ACTS[what](disk, self._luck, self._pause)

    def _kill_service(self, _job: SparkProcess) -> str:
        return self._hit(Daemon.kill, Daemon.start, (0, 3))

    def _restart_in_order(self, _job: SparkProcess) -> str:
        return self._hit(Daemon.stop, Daemon.start, (0, 2))

    def _freeze(self, _job: SparkProcess) -> str:
        return self._hit(Daemon.pause, Daemon.resume, (0.2, 5))

    def _hit(self, strike: Deed, mend: Deed, within_s: tuple[float, float]) -> str:
        """Does something to a service, and undoes it after a while."""
        service = self._service()
        strike(service)
        seconds = self._luck.uniform(*within_s)
        self._pause(seconds)
        mend(service)
        return f"{service.host_port}, for {seconds:.1f} s"

    def _fill(self, _job: SparkProcess) -> str:
        service = self._service()
        filler = service.directory / "filler"
        full_s = self._luck.uniform(0.5, 4)
        try:
            written = fill(filler)
            self._pause(full_s)
        finally:
            filler.unlink(missing_ok=True)
        return f"{service.host_port}, {written >> 20} MiB, for {full_s:.1f} s"

    def _hang(self, _job: SparkProcess) -> str:
        disk = self._luck.choice(self._disks)
        seconds = self._luck.uniform(0.5, 15)
        try:
            disk.freeze()
            self._pause(seconds)
        finally:
            disk.thaw()
        return f"{disk.directory.name}, for {seconds:.1f} s"

    def _damage(self, _job: SparkProcess) -> str:
        service = self._service()
        files = [path for path in data_files(service.directory) if size_of(path) > 0]
        if not files:
            return ""
        path = self._luck.choice(files)
        at = self._luck.randrange(max(1, size_of(path)))
        return f"byte {at} of {path.name} of {service.host_port}" if flip(path, at) else ""

    def _drain(self, _job: SparkProcess) -> str:
        service = self._service()
        drained_s = self._luck.uniform(0.5, 5)
        drain = service.drain("--timeout", f"{int(drained_s * 1000)}ms")
        code = drain.wait(drained_s + UNDO_TIMEOUT_S)
        if code == 0:
            service.process.wait(UNDO_TIMEOUT_S)
            service.start()
            return f"{service.host_port}: it held nothing, and ended"
        cancel = service.drain("--cancel")
        assert cancel.wait(UNDO_TIMEOUT_S) == 0, cancel.stderr.read()
        return f"{service.host_port}, for {drained_s:.1f} s"


def size_of(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def flip(path: Path, at: int) -> bool:
    """Changes a byte of a file, if it is still there."""
    try:
        with path.open("r+b", buffering=0) as file:
            file.seek(at)
            byte = file.read(1)
            if not byte:
                return False
            file.seek(at)
            file.write(bytes([byte[0] ^ 0x55]))
    except OSError:
        return False
    return True
