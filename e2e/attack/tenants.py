# SPDX-License-Identifier: Apache-2.0
"""Hostile applications: they take what others need."""

import os
import random
import socket

from . import wire
from .target import HOSTILE, Target
from .wire import Peer, Shuffle


def attempts_without_end(target: Target) -> None:
    """One application fills the index of segments."""
    shuffle = target.shuffle(maps=1_000_000, partitions=2000)
    target.push_small_segments(shuffle, 2000, wire.crc32c(b"x"))


def shuffles_without_end(target: Target) -> None:
    """Shuffles are registered and removed, as fast as possible."""
    first = target.shuffle()

    def act() -> None:
        peer = Peer(target.address, 5.0)
        while target.is_on():
            number = random.randrange(1, 2**31 - 1)
            shuffle = Shuffle(HOSTILE, first.incarnation, number)
            peer.ask(shuffle.register(1_000_000, 1_000_000))
            if random.random() < 0.5:
                peer.send(wire.one_way(shuffle.remove()))
        peer.close()

    target.at_once(4, act)


def applications_without_end(target: Target) -> None:
    """Each request comes from another application."""
    incarnation = target.shuffle().incarnation

    def act() -> None:
        peer = Peer(target.address, 5.0)
        while target.is_on():
            app = f"hostile-{random.getrandbits(60):x}"
            peer.ask(Shuffle(app, incarnation).register(10, 10))
            peer.ask(wire.report(app, "{" + " " * 60_000 + "}"))
        peer.close()

    target.at_once(4, act)


def huge_registrations(target: Target) -> None:
    """Executors register megabytes of directory names."""
    # As many as a service accepts.
    dirs = [f"/nowhere/{'d' * 200}/{number}" for number in range(1000)]

    def act() -> None:
        peer = Peer(target.address, 5.0)
        name = f"{random.getrandbits(60):x}"
        peer.ask(wire.register_executor(f"app-{name}", name, dirs))
        peer.close()

    target.at_once(4, act)


def traps_in_directories(target: Target) -> None:
    """An executor's directory has FIFOs, and links to other files, in place of blocks."""
    root = os.path.join(target.directory, "blockmgr")
    for number in range(64):
        os.makedirs(os.path.join(root, f"{number:02x}"), exist_ok=True)
    for number in range(64):
        for folder in range(64):
            for kind in ("data", "index"):
                path = os.path.join(root, f"{folder:02x}", f"shuffle_0_{number}_0.{kind}")
                if folder % 2:
                    os.mkfifo(path)
                else:
                    os.symlink("/etc/passwd", path)
    peer = Peer(target.address)
    peer.ask(wire.register_executor("trap", "1", [root]))

    def act() -> None:
        other = Peer(target.address, 2.0)
        for number in range(64):
            other.send(wire.rpc(number, wire.diagnose("trap", "1", number)))
        for _ in range(64):
            other.receive()
        other.close()

    target.at_once(4, act)


def drains_from_clients(target: Target) -> None:
    """Clients of the port order the service to drain and to end."""

    def act() -> None:
        peer = Peer(target.address, 2.0)
        for wish in (1, 3):
            peer.send(wire.rpc(wish, b"\x5b" + bytes([wish])))
            peer.receive()
        peer.close()

    target.at_once(4, act)


def operators_that_say_nothing(target: Target) -> None:
    """The socket for operators gets 200 connections."""
    found = []
    for _ in range(200):
        operator = socket.socket(socket.AF_UNIX)
        try:
            operator.connect(f"\0lodestone-{target.address[1]}")
        except OSError:
            break
        found.append(operator)
    target.hold()
