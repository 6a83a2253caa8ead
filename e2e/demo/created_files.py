# SPDX-License-Identifier: Apache-2.0
"""Counts the files that are created below a directory, with Linux's inotify.

Files that exist for a moment only count too.
"""

import ctypes
import os
import struct
import threading
from pathlib import Path

EVENT_HEAD = struct.Struct("iIII")
IN_CREATE, IN_ONLYDIR = 0x100, 0x01000000
IN_QUEUE_OVERFLOW, IN_IGNORED, IN_ISDIR = 0x4000, 0x8000, 0x40000000
# The kernel's queue has 16,384 events. To wake up for each of them would take time from the jobs.
POLL_S = 0.05
READ_BYTES = 1 << 20

LIBC = ctypes.CDLL(None, use_errno=True)


class CreatedFiles:
    """Counts files from its creation to `close`, also in directories that appear later."""

    def __init__(self, root: Path):
        self._notify = LIBC.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK)
        if self._notify < 0:
            raise OSError(ctypes.get_errno(), "inotify_init1")
        self._directories: dict[int, bytes] = {}
        # Files that the scan of a new directory found. Their events may be in the queue, and do not
        # count again.
        self._scanned: set[tuple[int, bytes]] = set()
        self._count = 0
        self._is_exact = True
        self._lock = threading.Lock()
        self._watch(os.fsencode(root))
        self._take_all()
        self._count = 0
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()

    def count(self) -> int:
        """Returns how many files were created so far. Renamed files count once, as they were
        created once."""
        with self._lock:
            self._take_all()
            return self._count

    @property
    def is_exact(self) -> bool:
        """False if the kernel dropped events: there were more files."""
        return self._is_exact

    def close(self) -> None:
        self._end.set()
        self._thread.join()
        os.close(self._notify)

    def _follow(self) -> None:
        while not self._end.wait(POLL_S):
            with self._lock:
                self._take_all()

    def _take_all(self) -> None:
        while True:
            try:
                events = os.read(self._notify, READ_BYTES)
            except BlockingIOError:
                self._scanned.clear()
                return
            self._take(events)

    def _take(self, events: bytes) -> None:
        at = 0
        while at < len(events):
            watch, mask, _cookie, length = EVENT_HEAD.unpack_from(events, at)
            name = events[at + EVENT_HEAD.size : at + EVENT_HEAD.size + length]
            at += EVENT_HEAD.size + length
            if mask & IN_QUEUE_OVERFLOW:
                self._is_exact = False
            elif mask & IN_ISDIR and not mask & IN_IGNORED:
                self._watch(os.path.join(self._directories[watch], name.rstrip(b"\0")))
            elif mask & IN_CREATE:
                self._created(watch, name)

    def _created(self, watch: int, name: bytes) -> None:
        if self._scanned:
            known = (watch, name.rstrip(b"\0"))
            if known in self._scanned:
                self._scanned.remove(known)
                return
        self._count += 1

    def _watch(self, directory: bytes) -> None:
        """Watches a directory, and counts what was created in it before it was watched."""
        watch = LIBC.inotify_add_watch(self._notify, directory, IN_CREATE | IN_ONLYDIR)
        if watch < 0:
            # It is gone already, or there are too many watches.
            self._is_exact &= not os.path.isdir(directory)
            return
        is_known = watch in self._directories
        self._directories[watch] = directory
        if is_known:
            return
        try:
            entries = list(os.scandir(directory))
        except OSError:
            return
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                self._watch(entry.path)
            else:
                self._scanned.add((watch, entry.name))
                self._count += 1
