# SPDX-License-Identifier: Apache-2.0
"""System calls that Python 3.10 has no function for."""

import ctypes
import os

CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWIPC = 0x00020000, 0x04000000, 0x08000000
CLONE_NEWPID, CLONE_NEWNET = 0x20000000, 0x40000000
MS_RDONLY, MS_NOSUID, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 1, 2, 32, 4096, 16384, 1 << 18
PR_SET_PDEATHSIG, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 1, 24, 38
LAST_CAPABILITY = 40

_libc = ctypes.CDLL(None, use_errno=True)


def mount(source: str, target: str, kind: str | None, flags: int, options: str = "") -> None:
    words = [None if word is None else os.fsencode(word) for word in (source, target, kind)]
    _checked(_libc.mount(*words, ctypes.c_ulong(flags), os.fsencode(options)), target)


def unshare(flags: int) -> None:
    _checked(_libc.unshare(flags), "unshare")


def enter_network(name: str) -> None:
    """Moves this thread, and no other, into a network that `ip netns` knows."""
    with open(f"/run/netns/{name}") as file:
        _checked(_libc.setns(file.fileno(), CLONE_NEWNET), name)


def set_hostname(name: str) -> None:
    _checked(_libc.sethostname(os.fsencode(name), len(os.fsencode(name))), name)


def control(option: int, value: int) -> None:
    """Calls prctl(2)."""
    _checked(_libc.prctl(option, value, 0, 0, 0), f"prctl {option}")


def _checked(returned: int, what: str) -> None:
    if returned != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"{os.strerror(error)}: {what}")
