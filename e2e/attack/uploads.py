# SPDX-License-Identifier: Apache-2.0
"""Hostile clients that push."""

import random
import threading
import time

from . import wire
from .target import BODY, CRC, MIB, Target, reset
from .wire import Peer, Shuffle


def bodies_that_never_come(target: Target) -> None:
    """1,000 connections announce pushes of 4 MiB, and send a few bytes of them."""
    shuffle = target.shuffle()
    target.ready()
    for number, peer in enumerate(peers := target.peers(1000)):
        meta = shuffle.batch(number, [0], 4 * MIB, 0)
        peer.send(wire.upload(1, meta, 4 * MIB) + b"x" * 100)
    target.hold()
    del peers


def lists_without_bodies(target: Target) -> None:
    """300 connections send the list of a push of 65,536 segments, and none of their bytes."""
    count = 65_536
    shuffle = target.shuffle(partitions=count)
    meta = shuffle.batch(0, list(range(count)), 1, 0)
    request = wire.upload(1, meta, count)
    target.ready()
    for peer in (peers := target.peers(300)):
        peer.send_what_goes(request)
    target.hold()
    del peers


def bodies_that_trickle(target: Target) -> None:
    """200 connections send the bodies of pushes with 1 KB a second."""
    shuffle = target.shuffle()
    peers = target.peers(200)
    for number, peer in enumerate(peers):
        peer.send(wire.upload(1, shuffle.batch(number, [0], 4 * MIB, 0), 4 * MIB) + b"x" * 17_000)

    def trickle() -> None:
        for peer in peers:
            try:
                peer.send(b"x" * 100)
            except OSError:
                pass
        threading.Event().wait(0.1)

    target.again(trickle)


def bodies_of_nobody(target: Target) -> None:
    """Pushes of 64 MiB are announced for applications that do not exist."""
    nobody = Shuffle("nobody", 1)
    target.ready()
    for number, peer in enumerate(peers := target.peers(300)):
        peer.send(wire.upload(1, nobody.batch(number, [0], 64 * MIB, 0), 64 * MIB) + b"x" * 5000)
    target.hold()
    del peers


def bodies_that_break_off(target: Target) -> None:
    """Connections are reset in the middle of a body."""
    shuffle = target.shuffle()

    def act() -> None:
        peer = Peer(target.address, 2.0)
        peer.send(wire.upload(1, shuffle.batch(1, [0], MIB, 0), MIB) + b"x" * (MIB // 2))
        reset(peer)

    target.at_once(4, act)


def large_pushes(target: Target) -> None:
    """20 connections push 32 MiB each as fast as the service takes them."""
    shuffle = target.shuffle()
    body = b"x" * (32 * MIB)
    numbers = iter(range(1, 100_000))
    # A wrong checksum: the bytes cost all but the room that they would take.

    def act() -> None:
        peer = Peer(target.address, 5.0)
        try:
            peer.ask(shuffle.batch(next(numbers), [0], len(body), 1), body)
        finally:
            peer.close()

    target.at_once(20, act)


def repeated_batches(target: Target) -> None:
    """The same batch comes again with other content, without an end."""
    shuffle = target.shuffle()

    def act() -> None:
        peer = Peer(target.address, 5.0)
        while target.is_on():
            crc = CRC if random.random() < 0.5 else 7
            peer.ask(shuffle.batch(1, [random.randrange(9)], len(BODY), crc), BODY)
        peer.close()

    target.at_once(4, act)


def damaged_segments(target: Target) -> None:
    """Batches of very many small segments have wrong checksums."""
    shuffle = target.shuffle(maps=1_000_000, partitions=60_000)
    target.push_small_segments(shuffle, 60_000, 1)


def twice_what_the_disk_writes(target: Target) -> None:
    """64 connections push 80 MB/s together, and the disk writes 40: they always wait for it."""
    _push_80_mb_per_s(target, partitions=1000)


def pushes_to_few_files(target: Target) -> None:
    """64 connections push 80 MB/s together, to files to which the daemon writes again and again."""
    _push_80_mb_per_s(target, partitions=8)


def _push_80_mb_per_s(target: Target, partitions: int) -> None:
    shuffle = target.shuffle()
    body = b"x" * (256 << 10)
    crc = wire.crc32c(body)
    connections, began = 64, time.monotonic()
    period_s = connections * len(body) / 80e6
    took: list[float] = []
    refused: list[int] = []
    numbers = iter(range(1, 1_000_000))

    def act() -> None:
        peer = Peer(target.address, 20.0)
        while target.is_on():
            sent = time.monotonic()
            number = next(numbers)
            answer = peer.ask(shuffle.batch(number, [number % partitions], len(body), crc), body)
            took.append(time.monotonic() - sent)
            if answer[0] != wire.PUSH_REPLY or answer[9] != 1:
                refused.append(number)
            time.sleep(max(0.0, period_s - took[-1]))
        peer.close()

    target.at_once(connections, act)
    rate = len(took) * len(body) / 1e6 / (time.monotonic() - began)
    took.sort()
    p50, p99, most = took[len(took) // 2], took[len(took) * 99 // 100], took[-1]
    target.note(
        f"{len(took)} pushes ({rate:.0f} MB/s), {len(refused)} refused: "
        f"p50 {p50:.2f} s, p99 {p99:.2f} s, slowest {most:.2f} s"
    )
