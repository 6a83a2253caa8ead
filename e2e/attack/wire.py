# SPDX-License-Identifier: Apache-2.0
"""Frames and messages of docs/protocol.md, as bytes: well formed ones, and any others."""

import socket
import struct
from dataclasses import dataclass

PROTOCOL_VERSION = 8

CHUNK_REQUEST, CHUNK, CHUNK_FAILURE = 0, 1, 2
RPC_REQUEST, RPC_RESPONSE, RPC_FAILURE = 3, 4, 5
ONE_WAY, UPLOAD = 9, 10

HELLO_REPLY, DONE, REFUSED, STREAM_HANDLE, LAYOUT_REPLY, PUSH_REPLY = 65, 79, 80, 3, 94, 97
NO_ATTEMPT = -1
MERGE, REMOTE = 0, 1
ONLY_SEGMENT = 1
# The code of a refusal after which a client asks again.
OVERLOADED = 13
HELD_UP = "held up"
HONEST_LARGE = "honest-large"


def frame(kind: int, header: bytes, body: bytes = b"") -> bytes:
    return struct.pack(">qb", 9 + len(header) + len(body), kind) + header + body


def rpc(request_id: int, body: bytes) -> bytes:
    return frame(RPC_REQUEST, struct.pack(">qi", request_id, len(body)), body)


def one_way(body: bytes) -> bytes:
    return frame(ONE_WAY, struct.pack(">i", len(body)), body)


def upload(request_id: int, meta: bytes, body_bytes: int) -> bytes:
    """Announces a body, which follows the frame."""
    head = struct.pack(">qi", request_id, len(meta))
    return frame(UPLOAD, head + meta + struct.pack(">q", body_bytes))


def chunk_request(stream_id: int, chunk: int) -> bytes:
    return frame(CHUNK_REQUEST, struct.pack(">qi", stream_id, chunk))


def text(value: str) -> bytes:
    encoded = value.encode()
    return struct.pack(">i", len(encoded)) + encoded


def texts(values: list[str]) -> bytes:
    return struct.pack(">i", len(values)) + b"".join(map(text, values))


def ints(values: list[int]) -> bytes:
    return struct.pack(f">i{len(values)}i", len(values), *values)


@dataclass(frozen=True)
class Shuffle:
    """One generation of one shuffle at one incarnation of a service."""

    app: str
    incarnation: int
    shuffle_id: int = 0
    generation: int = 0

    def address(self) -> bytes:
        numbers = struct.pack(
            ">iqii", NO_ATTEMPT, self.incarnation, self.shuffle_id, self.generation
        )
        return text(self.app) + numbers

    def register(self, maps: int, partitions: int, mode: int = REMOTE) -> bytes:
        numbers = struct.pack(">bii", mode, maps, partitions)
        return b"\x54" + self.address() + numbers + text("spark-stream")

    def batch(self, map_index: int, reduce_ids: list[int], length: int, crc: int) -> bytes:
        """A whole attempt: one segment of this length for each partition."""
        head = struct.pack(">iqib", map_index, map_index, 0, 1)
        segments = b"".join(
            struct.pack(">iiiiI", reduce_id, ONLY_SEGMENT, length, 1, crc)
            for reduce_id in reduce_ids
        )
        return b"\x60" + self.address() + head + struct.pack(">i", len(reduce_ids)) + segments

    def layout(self, reduce_ids: list[int]) -> bytes:
        return b"\x56" + self.address() + struct.pack(">ii", 0, 2**31 - 1) + ints(reduce_ids)

    def fetch(self, chunks: list[tuple[int, list[tuple[int, int]]]]) -> bytes:
        """Opens a stream of chunks: each has a reduce id and runs of slots."""
        wanted = b"".join(
            struct.pack(">ii", reduce_id, len(runs))
            + b"".join(struct.pack(">ii", *run) for run in runs)
            for reduce_id, runs in chunks
        )
        return b"\x58" + self.address() + struct.pack(">i", len(chunks)) + wanted

    def remove(self) -> bytes:
        """Spark's RemoveShuffleMerge, which is one-way."""
        return (
            b"\x13"
            + text(self.app)
            + struct.pack(">iii", NO_ATTEMPT, self.shuffle_id, self.generation)
        )


def hello(client: str) -> bytes:
    return b"\x40" + struct.pack(">i", PROTOCOL_VERSION) + text(client)


def explain(app: str) -> bytes:
    return b"\x52" + text(app)


def report(app: str, content: str) -> bytes:
    return b"\x51" + text(app) + struct.pack(">ib", NO_ATTEMPT, 0) + text(content)


def register_executor(app: str, executor: str, dirs: list[str]) -> bytes:
    manager = text("org.apache.spark.shuffle.sort.SortShuffleManager")
    return b"\x02" + text(app) + text(executor) + texts(dirs) + struct.pack(">i", 64) + manager


def open_blocks(app: str, executor: str, blocks: list[str]) -> bytes:
    return b"\x00" + text(app) + text(executor) + texts(blocks)


def diagnose(app: str, executor: str, map_id: int) -> bytes:
    numbers = struct.pack(">iqiq", 0, map_id, 0, 1)
    return b"\x10" + text(app) + text(executor) + numbers + text("CRC32C")


def _table() -> list[int]:
    found = []
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = (value >> 1) ^ (0x82F63B78 if value & 1 else 0)
        found.append(value)
    return found


_CRC_TABLE = _table()


def crc32c(data: bytes) -> int:
    value = 0xFFFFFFFF
    for byte in data:
        value = _CRC_TABLE[(value ^ byte) & 0xFF] ^ (value >> 8)
    return value ^ 0xFFFFFFFF


class Peer:
    """A connection that sends what it is given, and reads frames if somebody asks."""

    def __init__(self, address: tuple[str, int], timeout_s: float = 20.0):
        self.socket = socket.create_connection(address, timeout_s)
        self._requests = 0

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def send_what_goes(self, data: bytes) -> None:
        """Sends as much as the service takes now: it may stop reading."""
        self.socket.settimeout(0.02)
        try:
            self.send(data)
        except OSError:
            pass

    def ask(self, body: bytes, data: bytes = b"") -> bytes:
        """Returns the answer to a request; to an upload if there is data."""
        self._requests += 1
        if data:
            self.send(upload(self._requests, body, len(data)) + data)
        else:
            self.send(rpc(self._requests, body))
        return answer_in(self.receive())

    def incarnation(self) -> int:
        return incarnation_in(self.ask(hello("attack")))

    def receive(self) -> bytes:
        """Returns the next frame without its length."""
        (length,) = struct.unpack(">q", self._exactly(8))
        return self._exactly(length - 8)

    def close(self) -> None:
        self.socket.close()

    def _exactly(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            some = self.socket.recv(size - len(data))
            if not some:
                raise ConnectionError("the service closed the connection")
            data += some
        return bytes(data)


def answer_in(received: bytes) -> bytes:
    """Returns the body of an RpcResponse."""
    if received[0] != RPC_RESPONSE:
        raise ConnectionError(f"a frame of type {received[0]}: {received[9:200]!r}")
    return received[13:]


def check(answer: bytes, kind: int, what: str) -> None:
    """Fails if the answer is not of this kind."""
    if answer[0] == REFUSED and answer[1] == OVERLOADED:
        what = HELD_UP
    if answer[0] != kind:
        raise ValueError(f"{what}: {answer[:80]!r}")


def incarnation_in(answer: bytes) -> int:
    if answer[0] != HELLO_REPLY:
        raise ConnectionError(f"no answer to Hello: {answer[:200]!r}")
    (length,) = struct.unpack_from(">i", answer, 5)
    (incarnation,) = struct.unpack_from(">q", answer, 9 + length)
    return incarnation
