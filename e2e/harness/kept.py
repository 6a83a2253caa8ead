# SPDX-License-Identifier: Apache-2.0
"""Folders that are made once and kept in `.cache`."""

import fcntl
import shutil
from collections.abc import Callable
from pathlib import Path


def kept(folder: Path, fill: Callable[[Path], None]) -> Path:
    """Returns the folder as `fill` makes it. It appears whole or not at all, and processes that
    need it at the same time wait for it."""
    if folder.exists():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with open(beside(folder, "lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            unfinished = beside(folder, "unfinished")
            shutil.rmtree(unfinished, ignore_errors=True)
            unfinished.mkdir()
            fill(unfinished)
            unfinished.rename(folder)
    return folder


def beside(folder: Path, what: str) -> Path:
    return folder.with_name(f"{folder.name}.{what}")
