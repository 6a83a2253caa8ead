# SPDX-License-Identifier: Apache-2.0
"""The acts that harm disks of executors, and the messages of jobs that may fail because of them."""

import random
from collections.abc import Callable

from harness.faulty_disk import FaultyDisk

# Calls that fail together, as on a disk with bad blocks in its data or in a directory.
CALLS = [
    ("write",),
    ("write",),
    ("read",),
    ("create", "mkdir"),
    ("open",),
    ("lookup", "getattr"),
    ("rename", "rename2"),
    ("unlink", "setattr"),
]
# A job that fails because of a broken disk has one of these messages. The last two are Spark's: it
# looks for a directory, and does not report why it is missing.
EXPLAINED = (
    "No space left on device",
    "Input/output error",
    "Failed to create local dir",
    "Failed to create directory",
)

Pause = Callable[[float], object]


def is_explained(failure: str) -> bool:
    return any(reason in failure for reason in EXPLAINED)


def fill_for_a_while(disk: FaultyDisk, luck: random.Random, pause: Pause) -> str:
    room = luck.choice([0, 0, luck.randrange(8 << 20)])
    seconds = luck.uniform(0.3, 4)
    try:
        disk.leave_room(room)
        pause(seconds)
    finally:
        disk.make_room()
    return f"{disk.directory.name} except {room >> 10} KiB, for {seconds:.1f} s"


def fail_for_a_while(disk: FaultyDisk, luck: random.Random, pause: Pause) -> str:
    seconds = luck.uniform(0.1, 4)
    before = disk.failures
    try:
        disk.fail()
        pause(seconds)
    finally:
        disk.mend()
    return f"{disk.directory.name}, for {seconds:.1f} s, {disk.failures - before} calls"


def fail_some_calls(disk: FaultyDisk, luck: random.Random, pause: Pause) -> str:
    calls = luck.choice(CALLS)
    times = luck.randrange(1, 4)
    seconds = luck.uniform(1, 4)
    before = disk.failures
    try:
        disk.fail(frozenset(calls), times)
        pause(seconds)
    finally:
        disk.mend()
    return f"{disk.directory.name}, {disk.failures - before} of {times}: {' or '.join(calls)}"


def hang_for_a_while(disk: FaultyDisk, luck: random.Random, pause: Pause) -> str:
    seconds = luck.uniform(0.5, 6)
    try:
        disk.hang()
        pause(seconds)
    finally:
        disk.thaw()
    return f"{disk.directory.name}, for {seconds:.1f} s"


def fill_for_good(disk: FaultyDisk, luck: random.Random, _pause: Pause) -> str:
    room = luck.randrange(8 << 20)
    disk.leave_room(room)
    return f"{disk.directory.name} except {room >> 10} KiB"


def fail_for_good(disk: FaultyDisk, _luck: random.Random, _pause: Pause) -> str:
    disk.fail()
    return disk.directory.name


LOCAL_ACTS = {
    "fill a local directory": fill_for_a_while,
    "fail a local directory": fail_for_a_while,
    "fail some calls of a local directory": fail_some_calls,
    "hang a local directory": hang_for_a_while,
    "fill a local directory for good": fill_for_good,
    "fail a local directory for good": fail_for_good,
}
