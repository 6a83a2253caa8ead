# SPDX-License-Identifier: Apache-2.0
"""Honest connections: each greets, pushes a map output, asks for a layout and reads the output
back, again and again, and measures how long each of these takes. Most outputs are small, and stay
in memory; some connections push a MiB, which goes to a disk. A process of its own, so that an
attack does not share its interpreter.

Meanwhile one operator asks for /health. Prints a JSON line with the requests and the questions that
have ended, every half second; ends with its stdin, and then prints those that have not ended."""

import asyncio
import json
import struct
import sys
import time

from . import wire

PERIOD_S = 0.4
HEALTH_PERIOD_S = 0.1
REPORT_S = 0.5
# A request that takes longer has failed, as it would for the plugin.
LIMIT_S = 20.0
BODY = bytes(range(250)) * 4
CRC = wire.crc32c(BODY)
LARGE_BODY = bytes(range(256)) * 4096
LARGE_CRC = wire.crc32c(LARGE_BODY)
# Each connection with such a number pushes large outputs, to a partition of its own.
LARGE_EACH = 25
PARTITIONS = 64
MAPS = 1_000_000


class Connection:
    """One honest client."""

    def __init__(
        self, address: tuple[str, int], shuffle: wire.Shuffle | None, number: int, ended: list
    ):
        self._address = address
        self._shuffle = shuffle
        self._number = number
        self._ended = ended
        self._partition = number % PARTITIONS
        self._requests = 0
        self._maps = 0
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._began: float | None = None
        self._acts = [self._greet, self._push, self._layout, self._read]
        self._period_s = PERIOD_S

    async def run(self, connections: int) -> None:
        # All begin at different times, so that the load is even.
        await asyncio.sleep(self._period_s * self._number / connections)
        turn = self._number
        while True:
            self._began = began = time.time()
            act = self._acts[turn % len(self._acts)]
            turn += 1
            failure = None
            try:
                await asyncio.wait_for(act(), LIMIT_S)
            except (
                OSError,
                ValueError,
                asyncio.TimeoutError,
                asyncio.IncompleteReadError,
            ) as cause:
                failure = f"{act.__name__[1:]}: {type(cause).__name__} {cause}"
                self._drop()
            self._began = None
            took = time.time() - began
            self._ended.append((round(began, 3), round(took, 5), failure))
            await asyncio.sleep(max(0.0, self._period_s - took))

    def unfinished(self) -> list[tuple[float, float, None]]:
        """The request that has not ended, with the time that it has taken so far."""
        began = self._began
        return [] if began is None else [(round(began, 3), round(time.time() - began, 5), None)]

    async def _greet(self) -> None:
        wire.incarnation_in(await self._ask(wire.rpc(self._next(), wire.hello("honest"))))

    async def _push(self) -> None:
        self._maps += 1
        map_index = self._number + 1000 * self._maps
        meta = self._shuffle.batch(map_index, [self._partition], len(BODY), CRC)
        answer = await self._ask(wire.upload(self._next(), meta, len(BODY)) + BODY)
        if answer[0] != wire.PUSH_REPLY or answer[9] != 1:
            raise ValueError(f"not committed: {answer[:80]!r}")

    async def _layout(self) -> None:
        answer = await self._ask(wire.rpc(self._next(), self._shuffle.layout([self._partition])))
        wire.check(answer, wire.LAYOUT_REPLY, "no layout")

    async def _read(self) -> None:
        await self._read_slot(0, BODY)

    async def _read_slot(self, slot: int, body: bytes) -> None:
        wanted = self._shuffle.fetch([(self._partition, [(slot, 1)])])
        answer = await self._ask(wire.rpc(self._next(), wanted))
        wire.check(answer, wire.STREAM_HANDLE, "no stream")
        (stream_id,) = struct.unpack_from(">q", answer, 1)
        received = await self._exchange(wire.chunk_request(stream_id, 0))
        if received[0] != wire.CHUNK or received[13:] != body:
            raise ValueError(f"not the bytes that were pushed: {received[:80]!r}")

    async def _ask(self, request: bytes) -> bytes:
        return wire.answer_in(await self._exchange(request))

    async def _exchange(self, request: bytes) -> bytes:
        if self._streams is None:
            self._streams = await asyncio.open_connection(*self._address)
        reader, writer = self._streams
        writer.write(request)
        (length,) = struct.unpack(">q", await reader.readexactly(8))
        return await reader.readexactly(length - 8)

    def _next(self) -> int:
        self._requests += 1
        return self._requests

    def _drop(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


class LargeConnection(Connection):
    """An honest client with large outputs. A service without room may refuse them, in time."""

    def __init__(self, address: tuple[str, int], shuffle: wire.Shuffle, number: int, ended: list):
        super().__init__(address, shuffle, number, ended)
        self._partition = PARTITIONS + number
        self._taken = 0

    async def _push(self) -> None:
        self._maps += 1
        map_index = self._number + 1000 * self._maps
        meta = self._shuffle.batch(map_index, [self._partition], len(LARGE_BODY), LARGE_CRC)
        answer = await self._ask(wire.upload(self._next(), meta, len(LARGE_BODY)) + LARGE_BODY)
        if answer[0] != wire.PUSH_REPLY:
            raise ValueError(f"no outcome: {answer[:80]!r}")
        self._taken += answer[9]

    async def _read(self) -> None:
        if self._taken:
            await self._read_slot(self._requests % self._taken, LARGE_BODY)


class Operator(Connection):
    """Asks for /health, each time over a new connection."""

    def __init__(self, admin: tuple[str, int], ended: list):
        super().__init__(admin, None, 0, ended)
        self._acts = [self._health]
        self._period_s = HEALTH_PERIOD_S

    async def _health(self) -> None:
        reader, writer = await asyncio.open_connection(*self._address)
        try:
            writer.write(b"GET /health HTTP/1.1\r\nhost: here\r\n\r\n")
            # Also "disk full" is an answer.
            answer = await reader.read()
            if not answer.startswith(b"HTTP/1.1 "):
                raise ValueError(f"no answer: {answer[:80]!r}")
        finally:
            writer.close()


def prepared(address: tuple[str, int], application: str, partitions: int) -> wire.Shuffle:
    """Registers the shuffle of honest clients; each of the first partitions has a segment."""
    peer = wire.Peer(address)
    shuffle = wire.Shuffle(application, peer.incarnation())
    answer = peer.ask(shuffle.register(MAPS, partitions))
    assert answer[0] == wire.DONE, answer
    meta = shuffle.batch(0, list(range(PARTITIONS)), len(BODY), CRC)
    answer = peer.ask(meta, BODY * PARTITIONS)
    assert answer[0] == wire.PUSH_REPLY, answer
    peer.close()
    return shuffle


async def run(address: tuple[str, int], admin: tuple[str, int], connections: int) -> None:
    requests: list = []
    health: list = []
    # Large outputs belong to another application. When the disks are full, its share leaves memory
    # to the first one.
    kinds = {
        Connection: prepared(address, "honest", PARTITIONS),
        LargeConnection: prepared(address, wire.HONEST_LARGE, PARTITIONS + connections),
    }
    clients = []
    for number in range(connections):
        kind = Connection if number % LARGE_EACH else LargeConnection
        clients.append(kind(address, kinds[kind], number, requests))
    operator = Operator(admin, health)
    tasks = [asyncio.create_task(client.run(connections)) for client in [*clients, operator]]
    closed = asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    while not closed.done():
        await asyncio.wait([closed], timeout=REPORT_S)
        say(requests, health)
        requests.clear()
        health.clear()
    # One that hangs is slow, too.
    say([one for client in clients for one in client.unfinished()], operator.unfinished())
    for task in tasks:
        task.cancel()


def say(requests: list, health: list) -> None:
    print(json.dumps({"requests": requests, "health": health}), flush=True)


if __name__ == "__main__":
    host, port, admin_port, count = sys.argv[1:]
    asyncio.run(run((host, int(port)), ("127.0.0.1", int(admin_port)), int(count)))
