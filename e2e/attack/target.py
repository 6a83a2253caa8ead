# SPDX-License-Identifier: Apache-2.0
"""The service that a hostile client attacks."""

import socket
import struct
import threading
import time
from collections.abc import Callable

from . import wire
from .wire import Peer, Shuffle

MIB = 1 << 20
HOSTILE = "hostile"
BODY = b"x" * 1000
CRC = wire.crc32c(BODY)


class Target:
    """The service, and the end of the attack."""

    def __init__(self, host: str, port: int, admin_port: int, seconds: float, directory: str):
        self.address = (host, port)
        self.admin = ("127.0.0.1", admin_port)
        self.directory = directory
        self._seconds = seconds
        self._end: float | None = None

    def ready(self) -> None:
        """The set-up is over, and the attack begins."""
        if self._end is None:
            self._end = time.monotonic() + self._seconds
            print("ready", flush=True)

    def note(self, text: str) -> None:
        """Says what the attacker itself noticed."""
        print(text, flush=True)

    def is_on(self) -> bool:
        return self.left_s() > 0

    def left_s(self) -> float:
        self.ready()
        return max(0.0, self._end - time.monotonic())

    def peers(self, count: int) -> list[Peer]:
        """Opens connections; fewer if the service has no room."""
        found = []
        for _ in range(count):
            try:
                found.append(Peer(self.address, timeout_s=2.0))
            except OSError:
                break
        return found

    def shuffle(self, shuffle_id: int = 0, maps: int = 100_000, partitions: int = 1000) -> Shuffle:
        """Registers a shuffle of the attacker's own application."""
        peer = Peer(self.address)
        shuffle = Shuffle(HOSTILE, peer.incarnation(), shuffle_id)
        peer.ask(shuffle.register(maps, partitions))
        peer.close()
        return shuffle

    def push_small_segments(self, shuffle: Shuffle, partitions: int, crc: int) -> None:
        """Pushes whole attempts of a segment of one byte for each partition, until the end."""
        body = b"x" * partitions
        reduce_ids = list(range(partitions))
        numbers = iter(range(1, 1_000_000))

        def act() -> None:
            peer = Peer(self.address, 5.0)
            while self.is_on():
                peer.ask(shuffle.batch(next(numbers), reduce_ids, 1, crc), body)
            peer.close()

        self.at_once(4, act)

    def hold(self) -> None:
        """Waits for the end, with everything open."""
        threading.Event().wait(self.left_s())

    def again(self, act: Callable[[], None]) -> None:
        """Repeats until the end. It goes on if the service closes connections."""
        while self.is_on():
            try:
                act()
            except OSError:
                threading.Event().wait(min(0.01, self.left_s()))

    def at_once(self, count: int, act: Callable[[], None]) -> None:
        self.ready()
        threads = [threading.Thread(target=self.again, args=(act,)) for _ in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def with_segments(target: Target, maps: int, length: int = 1000) -> Shuffle:
    """A shuffle of 1,000 partitions with a segment of each map."""
    shuffle = target.shuffle()
    segment = b"x" * length
    crc = wire.crc32c(segment)
    peer = Peer(target.address)
    # At most 16 MiB in one push.
    most = max(1, (16 * MIB) // length)
    for map_index in range(maps):
        for first in range(0, 1000, most):
            reduce_ids = list(range(first, min(1000, first + most)))
            number = map_index + maps * (first // most)
            peer.ask(shuffle.batch(number, reduce_ids, length, crc), segment * len(reduce_ids))
    peer.close()
    return shuffle


def small_window(peer: Peer) -> None:
    """Makes the service keep what the client does not read."""
    peer.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)


def reset(peer: Peer) -> None:
    """Closes the connection with RST."""
    peer.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    peer.close()
