# SPDX-License-Identifier: Apache-2.0
"""Hostile connections."""

import os
import random
import socket
import struct

from . import wire
from .target import MIB, Target, reset
from .wire import Peer


def idle_connections(target: Target) -> None:
    """6,000 connections open and say nothing."""
    peers = []
    while target.is_on() and len(peers) < 6000:
        peers += target.peers(100)
    target.hold()


def half_frames(target: Target) -> None:
    """500 connections announce frames of 8 MiB, and stop in the middle."""
    for peer in (peers := target.peers(500)):
        peer.send(struct.pack(">qb", 8 * MIB - 1, wire.RPC_REQUEST) + b"\0" * 20_000)
    target.hold()
    del peers


def bytes_one_by_one(target: Target) -> None:
    """200 connections send one byte of a request at a time."""
    request = wire.rpc(1, wire.hello("h" * 1000))
    peers = target.peers(200)

    def act() -> None:
        for at in range(len(request)):
            for peer in peers:
                peer.send(request[at : at + 1])
            if not target.is_on():
                return

    target.again(act)


def nonsense(target: Target) -> None:
    """Connections begin with HTTP, TLS, zeros, or frames of impossible lengths."""
    openings = [
        b"GET / HTTP/1.1\r\n\r\n",
        bytes.fromhex("16030100c8010000c40303") + os.urandom(200),
        b"\0" * 64,
        struct.pack(">qb", 2**62, 3),
        struct.pack(">qb", -1, 3),
        struct.pack(">qb", 9, 77),
        wire.rpc(1, b"\x7f" + os.urandom(64)),
        wire.rpc(1, b"\x40"),
        wire.chunk_request(123456, -1),
        wire.one_way(os.urandom(100)),
    ]

    def act() -> None:
        peer = Peer(target.address, 2.0)
        peer.send(random.choice(openings))
        reset(peer)

    target.at_once(4, act)


def connections_that_come_and_go(target: Target) -> None:
    """Connections are opened and closed as fast as possible."""
    target.at_once(4, lambda: Peer(target.address, 2.0).close())


def admin_half_requests(target: Target) -> None:
    """The admin endpoint has more connections than it serves, which send half a request or none."""
    openings = [b"", b"GET /health HT", b"GET /metrics HTTP/1.1\r\nhost: here\r\nx-"]

    def act() -> None:
        with socket.create_connection(target.admin, timeout=5.0) as held:
            held.sendall(random.choice(openings))
            held.settimeout(0.1 + target.left_s())
            # Until the endpoint closes it.
            held.recv(1 << 16)

    target.at_once(40, act)
