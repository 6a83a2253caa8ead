# SPDX-License-Identifier: Apache-2.0
"""Hostile clients that ask, and read slowly or nothing."""

import random
import struct

from . import wire
from .target import HOSTILE, Target, small_window, with_segments
from .wire import Peer


def layouts_not_read(target: Target) -> None:
    """20 connections ask for large layouts, and read nothing."""
    shuffle = with_segments(target, maps=40)
    target.ready()
    for peer in (peers := target.peers(20)):
        small_window(peer)
        for number in range(32):
            peer.send(wire.rpc(number, shuffle.layout(list(range(1000)))))
    target.hold()
    del peers


def layouts_of_everything(target: Target) -> None:
    """Requests name a million partitions."""
    shuffle = target.shuffle(partitions=2**31 - 1)
    request = shuffle.layout(list(range(900_000)))

    def act() -> None:
        peer = Peer(target.address, 5.0)
        peer.ask(request)
        peer.close()

    target.at_once(4, act)


def chunks_not_read(target: Target) -> None:
    """500 connections ask for chunks, and read nothing."""
    shuffle = with_segments(target, maps=4)
    target.ready()
    for peer in (peers := target.peers(500)):
        answer = peer.ask(shuffle.fetch([(reduce_id, [(0, 1)]) for reduce_id in range(1000)]))
        (stream_id,) = struct.unpack_from(">q", answer, 1)
        small_window(peer)
        peer.send(b"".join(wire.chunk_request(stream_id, chunk) for chunk in range(1000)))
    target.hold()
    del peers


def streams_kept_open(target: Target) -> None:
    """200 connections open streams of very many blocks that do not exist."""
    peer = Peer(target.address)
    peer.ask(wire.register_executor(HOSTILE, "1", [target.directory]))
    _open_streams(target, [HOSTILE])


def streams_of_nobody(target: Target) -> None:
    """The same for two applications that nobody registered: each could have half of the room."""
    _open_streams(target, ["nobody", "no-one"])


def _open_streams(target: Target, apps: list[str]) -> None:
    blocks = [f"shuffle_0_0_{number}" for number in range(30_000)]
    requests = [wire.open_blocks(app, "1", blocks) for app in apps]
    target.ready()
    for at, peer in enumerate(peers := target.peers(200)):
        for number in range(8):
            try:
                peer.send(wire.rpc(number, requests[at % len(requests)]))
            except OSError:
                break
    target.hold()
    del peers


def questions_that_wait(target: Target) -> None:
    """100 connections ask 64 long questions each, and read nothing: the questions wait."""
    shuffle = target.shuffle(partitions=15_000)
    request = wire.rpc(1, shuffle.layout(list(range(15_000)))) * 64
    target.ready()
    for peer in (peers := target.peers(100)):
        small_window(peer)
        peer.send_what_goes(request)
    target.hold()
    del peers


def requests_that_swell(target: Target) -> None:
    """Requests of 8 MiB have two million empty names, which are values of six times their size."""
    request = wire.open_blocks(HOSTILE, "1", [""] * 2_000_000)

    def act() -> None:
        peer = Peer(target.address, 5.0)
        peer.send(wire.rpc(1, request))
        peer.receive()
        peer.close()

    target.at_once(8, act)


def reports_not_read(target: Target) -> None:
    """Large reports are asked for by 50 connections that read nothing."""
    peer = Peer(target.address)
    target.shuffle()
    peer.ask(wire.report(HOSTILE, "[" + " " * (200 << 10) + "]"))
    target.ready()
    for other in (peers := target.peers(50)):
        small_window(other)
        other.send(b"".join(wire.rpc(number, wire.explain(HOSTILE)) for number in range(64)))
    target.hold()
    del peers


def greetings_not_read(target: Target) -> None:
    """100 connections send requests without an end, and read no answer."""
    request = wire.rpc(1, wire.hello("hostile")) * 100
    peers = target.peers(100)
    for peer in peers:
        small_window(peer)
        peer.socket.settimeout(0.05)

    def act() -> None:
        for peer in peers:
            try:
                peer.send(request)
            except OSError:
                pass

    target.again(act)


def readers_of_the_disk(target: Target) -> None:
    """1,000 readers ask for data of which half is on the disk that hangs."""
    shuffle = with_segments(target, maps=4, length=50_000)
    target.ready()
    for peer in (peers := target.peers(1000)):
        reduce_id = random.randrange(1000)
        chunks = [(reduce_id, [(slot, 1)]) for slot in range(4)]
        answer = peer.ask(shuffle.fetch(chunks))
        if answer[0] == wire.STREAM_HANDLE:
            (stream_id,) = struct.unpack_from(">q", answer, 1)
            peer.send(b"".join(wire.chunk_request(stream_id, chunk) for chunk in range(4)))
    target.hold()
    del peers
