# SPDX-License-Identifier: Apache-2.0
"""Honest connections: each greets, pushes a map output, asks for a layout and reads the output
back, again and again, and measures how long each of these takes. Most outputs are small, and stay
in memory; some connections push a MiB, which goes to a disk. A process of its own, so that an
attack does not share its interpreter.

Prints a JSON line with the requests that have ended, every half second; ends with its stdin."""

import asyncio
import json
import struct
import sys
import time

from . import wire

PERIOD_S = 0.4
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

    def __init__(self, address: tuple[str, int], shuffle: wire.Shuffle, number: int, ended: list):
        self._address = address
        self._shuffle = shuffle
        self._number = number
        self._ended = ended
        self._partition = number % PARTITIONS
        self._requests = 0
        self._maps = 0
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def run(self, connections: int) -> None:
        # All begin at different times, so that the load is even.
        await asyncio.sleep(PERIOD_S * self._number / connections)
        acts = [self._greet, self._push, self._layout, self._read]
        turn = self._number
        while True:
            began = time.time()
            act = acts[turn % len(acts)]
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
            took = time.time() - began
            self._ended.append((round(began, 3), round(took, 5), failure))
            await asyncio.sleep(max(0.0, PERIOD_S - took))

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
        if answer[0] != wire.LAYOUT_REPLY:
            raise ValueError(f"no layout: {answer[:80]!r}")

    async def _read(self) -> None:
        await self._read_slot(0, BODY)

    async def _read_slot(self, slot: int, body: bytes) -> None:
        wanted = self._shuffle.fetch([(self._partition, [(slot, 1)])])
        answer = await self._ask(wire.rpc(self._next(), wanted))
        if answer[0] != wire.STREAM_HANDLE:
            raise ValueError(f"no stream: {answer[:80]!r}")
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


async def run(address: tuple[str, int], connections: int) -> None:
    ended: list = []
    # Large outputs belong to another application. When the disks are full, its share leaves memory
    # to the first one.
    kinds = {
        Connection: prepared(address, "honest", PARTITIONS),
        LargeConnection: prepared(address, "honest-large", PARTITIONS + connections),
    }
    clients = []
    for number in range(connections):
        kind = Connection if number % LARGE_EACH else LargeConnection
        clients.append(kind(address, kinds[kind], number, ended))
    tasks = [asyncio.create_task(client.run(connections)) for client in clients]
    closed = asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    while not closed.done():
        await asyncio.wait([closed], timeout=REPORT_S)
        print(json.dumps(ended), flush=True)
        ended.clear()
    for task in tasks:
        task.cancel()


if __name__ == "__main__":
    asyncio.run(run((sys.argv[1], int(sys.argv[2])), int(sys.argv[3])))
