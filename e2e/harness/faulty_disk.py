# SPDX-License-Identifier: Apache-2.0
"""A small disk that becomes full, fails with EIO, or hangs when a test wants it, and works again
afterwards.

Device-mapper does this to a real disk, if the kernel has it. A file system that this process serves
does it everywhere, to single operations, and keeps the data on the disk.
"""

import errno
import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .passthrough import HEADER, MAX_REQUEST, Errno, Passthrough
from .readable import readable
from .small_disk import fill, small_disk

OPERATIONS = {
    1: "lookup", 2: "forget", 3: "getattr", 4: "setattr", 8: "mknod", 9: "mkdir", 10: "unlink",
    11: "rmdir", 12: "rename", 14: "open", 15: "read", 16: "write", 17: "statfs", 18: "release",
    20: "fsync", 25: "flush", 26: "init", 27: "opendir", 28: "readdir", 29: "releasedir",
    35: "create", 42: "batch_forget", 45: "rename2",
}  # fmt: skip
FORGETS = ("forget", "batch_forget")
# Operations that the kernel does alone, without a disk: a broken disk does not make them fail.
NEVER_FAIL = (*FORGETS, "init", "release", "releasedir", "flush")
STOP_TIMEOUT_S = 10


class FaultyDisk:
    """A file system at `directory`, whose files are on a disk in memory at `behind`."""

    def __init__(self, directory: Path, behind: Path):
        self.directory = directory
        self.behind = behind
        # Calls that got EIO or found no room.
        self.failures = 0
        self._files = Passthrough(str(behind))
        self._fails_at: frozenset[str] = frozenset()
        self._fails_left: int | None = None
        self._bytes_per_s: float | None = None
        # Nobody sets it: to wait for it takes time, as a slow disk does.
        self._never = threading.Event()
        self._moves = threading.Event()
        self._moves.set()
        self._device = os.open("/dev/fuse", os.O_RDWR)
        self._stop_read, self._stop_write = os.pipe()
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def fill(self) -> int:
        """Fills the disk. Returns how many bytes that took."""
        return fill(self.behind / "filler")

    def leave_room(self, room: int) -> None:
        """Fills the disk except for `room` bytes."""
        size = max(0, self.fill() - room)
        os.truncate(self.behind / "filler", size)

    def make_room(self) -> None:
        """Undoes `fill`."""
        (self.behind / "filler").unlink(missing_ok=True)

    def fail(self, operations: frozenset[str] | None = None, times: int | None = None) -> None:
        """Answers EIO to these operations or to all, `times` times or until `mend`."""
        self._fails_left = times
        every = frozenset(OPERATIONS.values()) - frozenset(NEVER_FAIL)
        self._fails_at = every if operations is None else operations

    def mend(self) -> None:
        """Ends `fail`."""
        self._fails_at = frozenset()

    def limit(self, bytes_per_s: float) -> None:
        """Writes no faster than this from now on."""
        self._bytes_per_s = bytes_per_s

    def hang(self) -> None:
        """Answers no request. The processes that wait cannot be interrupted."""
        self._moves.clear()

    def thaw(self) -> None:
        """Ends `hang`, and answers the requests that wait."""
        self._moves.set()

    def heal(self) -> None:
        """Ends every fault."""
        self.make_room()
        self.mend()
        self.thaw()

    def mount(self) -> None:
        options = f"fd={self._device},rootmode=40000,user_id=0,group_id=0,allow_other"
        command = ["mount", "-i", "-t", "fuse", "-o", options, "faulty", self.directory]
        subprocess.run(command, check=True, pass_fds=[self._device])
        self._thread.start()

    def unmount(self) -> None:
        """Unmounts the disk. Processes with open files on it get errors from now on."""
        self.thaw()
        subprocess.run(["umount", "--lazy", self.directory], check=True)
        os.write(self._stop_write, b"\0")
        self._thread.join(STOP_TIMEOUT_S)
        assert not self._thread.is_alive(), "the disk still handles a request"
        for descriptor in (self._device, self._stop_read, self._stop_write):
            os.close(descriptor)
        self._files.close()

    def _serve(self) -> None:
        while True:
            if self._stop_read in readable([self._device, self._stop_read]):
                return
            # Wait before reading a request: as long as it is not read, its process can be killed.
            self._moves.wait()
            try:
                request = os.read(self._device, MAX_REQUEST)
            except OSError as gone:
                # The caller was killed, or the disk is unmounted and no file on it is open.
                if gone.errno == errno.ENODEV:
                    return
                continue
            self._handle(request)

    def _handle(self, request: bytes) -> None:
        _, code, unique, node, *_ = HEADER.unpack_from(request)
        operation = OPERATIONS.get(code)
        number, answer = 0, b""
        try:
            if operation is None:
                raise Errno(errno.ENOSYS, "")
            if self._is_to_fail(operation):
                raise Errno(errno.EIO, "")
            answer = self._files.answer(operation, node, request[HEADER.size :])
            if operation == "write" and self._bytes_per_s is not None:
                self._never.wait(len(request) / self._bytes_per_s)
        except OSError as failed:
            number = failed.errno
            self.failures += number in (errno.EIO, errno.ENOSPC)
        if operation in FORGETS:
            return
        head = (16 + len(answer)).to_bytes(4, "little") + (-number).to_bytes(
            4, "little", signed=True
        )
        try:
            os.write(self._device, head + unique.to_bytes(8, "little") + answer)
        except OSError:
            pass  # the caller was killed meanwhile

    def _is_to_fail(self, operation: str) -> bool:
        if operation not in self._fails_at or self._fails_left == 0:
            return False
        if self._fails_left is not None:
            self._fails_left -= 1
        return True


@contextmanager
def faulty_disk(directory: Path, megabytes: int) -> Iterator[FaultyDisk]:
    """Mounts a disk at `directory`. Needs root, and /dev/fuse."""
    directory.mkdir(parents=True)
    with small_disk(directory.with_name(f"{directory.name}-behind"), megabytes) as behind:
        disk = FaultyDisk(directory, behind)
        disk.mount()
        try:
            yield disk
        finally:
            disk.unmount()
