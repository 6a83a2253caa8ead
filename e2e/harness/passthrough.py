# SPDX-License-Identifier: Apache-2.0
"""A file system in this process: it answers the kernel's requests for files (FUSE, protocol 7.31)
from another directory.

It has what Spark and Lodestone need: regular files and directories, no links, no extended
attributes.
"""

import errno
import os
import struct
from dataclasses import dataclass, field

HEADER = struct.Struct("<IIQQIIIHH")
MAX_WRITE = 1 << 20
# A request has the data to be written, and two headers.
MAX_REQUEST = MAX_WRITE + 4096
ROOT = 1
ATOMIC_O_TRUNC, BIG_WRITES, MAX_PAGES = 1 << 3, 1 << 5, 1 << 22
SET_MODE, SET_SIZE, SET_ATIME, SET_MTIME = 1, 8, 16, 32
# Flags of `open` that make sense for a file that is opened by its descriptor.
OPEN_FLAGS = os.O_RDONLY | os.O_WRONLY | os.O_RDWR | os.O_TRUNC | os.O_APPEND


class Errno(OSError):
    """Has no message: only its number goes back."""


@dataclass
class Node:
    """A file or directory that the kernel knows. `handle` keeps its inode, and so its number, from
    reuse."""

    handle: int
    lookups: int = 0

    @property
    def path(self) -> str:
        return f"/proc/self/fd/{self.handle}"


@dataclass
class Passthrough:
    """Answers one request after another. All numbers are as the kernel gave or got them."""

    directory: str
    nodes: dict[int, Node] = field(default_factory=dict)
    listings: dict[int, list[tuple[int, int, str]]] = field(default_factory=dict)
    listed: int = 0

    def __post_init__(self) -> None:
        self.nodes[ROOT] = Node(os.open(self.directory, os.O_PATH), 1)

    def close(self) -> None:
        for node in self.nodes.values():
            os.close(node.handle)

    def answer(self, operation: str, node: int, body: bytes) -> bytes:
        """Returns the answer to a request of the kernel. Raises OSError."""
        return getattr(self, operation)(node, body)

    def init(self, _node: int, body: bytes) -> bytes:
        _, _, readahead, offered = struct.unpack_from("<IIII", body)
        flags = offered & (ATOMIC_O_TRUNC | BIG_WRITES | MAX_PAGES)
        pages = MAX_WRITE // 4096
        return struct.pack(
            "<IIIIHHIIHHII24x", 7, 31, readahead, flags, 16, 12, MAX_WRITE, 1, pages, 0, 0, 0
        )

    def lookup(self, parent: int, body: bytes) -> bytes:
        return self._entry(parent, name_of(body))

    def forget(self, node: int, body: bytes) -> None:
        self._forget(node, struct.unpack_from("<Q", body)[0])

    def batch_forget(self, _node: int, body: bytes) -> None:
        (count,) = struct.unpack_from("<I", body)
        for number in range(count):
            self._forget(*struct.unpack_from("<QQ", body, 8 + 16 * number))

    def getattr(self, node: int, _body: bytes) -> bytes:
        return struct.pack("<QII", 0, 0, 0) + attributes(node, os.fstat(self.nodes[node].handle))

    def setattr(self, node: int, body: bytes) -> bytes:
        valid, _, _, size, _, atime, mtime = struct.unpack_from("<IIQQQQQ", body)
        atime_ns, mtime_ns, _, mode = struct.unpack_from("<IIII", body, 56)
        path = self.nodes[node].path
        if valid & SET_SIZE:
            os.truncate(path, size)
        if valid & SET_MODE:
            os.chmod(path, mode & 0o7777)
        if valid & (SET_ATIME | SET_MTIME):
            now = os.fstat(self.nodes[node].handle)
            atime = atime * 10**9 + atime_ns if valid & SET_ATIME else now.st_atime_ns
            mtime = mtime * 10**9 + mtime_ns if valid & SET_MTIME else now.st_mtime_ns
            os.utime(path, ns=(atime, mtime))
        return self.getattr(node, b"")

    def mkdir(self, parent: int, body: bytes) -> bytes:
        mode, _ = struct.unpack_from("<II", body)
        name = name_of(body[8:])
        os.mkdir(name, mode & 0o7777, dir_fd=self.nodes[parent].handle)
        return self._entry(parent, name)

    def mknod(self, parent: int, body: bytes) -> bytes:
        (mode,) = struct.unpack_from("<I", body)
        name = name_of(body[16:])
        os.mknod(name, mode, dir_fd=self.nodes[parent].handle)
        return self._entry(parent, name)

    def unlink(self, parent: int, body: bytes) -> bytes:
        os.unlink(name_of(body), dir_fd=self.nodes[parent].handle)
        return b""

    def rmdir(self, parent: int, body: bytes) -> bytes:
        os.rmdir(name_of(body), dir_fd=self.nodes[parent].handle)
        return b""

    def rename(self, parent: int, body: bytes) -> bytes:
        return self._rename(parent, struct.unpack_from("<Q", body)[0], body[8:])

    def rename2(self, parent: int, body: bytes) -> bytes:
        target, flags = struct.unpack_from("<QI", body)
        if flags:
            raise Errno(errno.EINVAL, "")
        return self._rename(parent, target, body[16:])

    def open(self, node: int, body: bytes) -> bytes:
        (flags,) = struct.unpack_from("<I", body)
        return opened(os.open(self.nodes[node].path, flags & OPEN_FLAGS))

    def create(self, parent: int, body: bytes) -> bytes:
        flags, mode = struct.unpack_from("<II", body)
        name = name_of(body[16:])
        wanted = flags & (OPEN_FLAGS | os.O_EXCL) | os.O_CREAT
        handle = os.open(name, wanted, mode & 0o7777, dir_fd=self.nodes[parent].handle)
        return self._entry(parent, name) + opened(handle)

    def read(self, _node: int, body: bytes) -> bytes:
        handle, offset, size = struct.unpack_from("<QQI", body)
        return os.pread(handle, size, offset)

    def write(self, _node: int, body: bytes) -> bytes:
        handle, offset, size = struct.unpack_from("<QQI", body)
        # The kernel finds the offset of appended data itself.
        return struct.pack("<II", os.pwrite(handle, memoryview(body)[40 : 40 + size], offset), 0)

    def release(self, _node: int, body: bytes) -> bytes:
        os.close(struct.unpack_from("<Q", body)[0])
        return b""

    def flush(self, _node: int, _body: bytes) -> bytes:
        return b""

    def fsync(self, _node: int, _body: bytes) -> bytes:
        return b""

    def statfs(self, _node: int, _body: bytes) -> bytes:
        found = os.statvfs(self.directory)
        blocks = found.f_blocks, found.f_bfree, found.f_bavail
        sizes = found.f_bsize, found.f_namemax, found.f_frsize
        return struct.pack("<QQQQQIIII24x", *blocks, found.f_files, found.f_ffree, *sizes, 0)

    def opendir(self, node: int, _body: bytes) -> bytes:
        self.listed += 1
        with os.scandir(self.nodes[node].path) as entries:
            kinds = [(one.inode(), 4 if one.is_dir() else 8, one.name) for one in entries]
        self.listings[self.listed] = kinds
        return struct.pack("<QII", self.listed, 0, 0)

    def readdir(self, _node: int, body: bytes) -> bytes:
        handle, offset, size = struct.unpack_from("<QQI", body)
        answer = b""
        for number, (inode, kind, name) in enumerate(self.listings[handle][offset:], offset + 1):
            encoded = name.encode()
            entry = struct.pack("<QQII", inode, number, len(encoded), kind) + encoded
            entry += bytes(-len(entry) % 8)
            if len(answer) + len(entry) > size:
                break
            answer += entry
        return answer

    def releasedir(self, _node: int, body: bytes) -> bytes:
        del self.listings[struct.unpack_from("<Q", body)[0]]
        return b""

    def _entry(self, parent: int, name: str) -> bytes:
        handle = os.open(name, os.O_PATH | os.O_NOFOLLOW, dir_fd=self.nodes[parent].handle)
        found = os.fstat(handle)
        if found.st_ino in self.nodes:
            os.close(handle)
        else:
            self.nodes[found.st_ino] = Node(handle)
        self.nodes[found.st_ino].lookups += 1
        # Zero seconds: the kernel may not answer from its own cache.
        return struct.pack("<QQQQII", found.st_ino, 0, 0, 0, 0, 0) + attributes(found.st_ino, found)

    def _forget(self, number: int, lookups: int) -> None:
        node = self.nodes[number]
        node.lookups -= lookups
        if node.lookups == 0 and number != ROOT:
            os.close(self.nodes.pop(number).handle)

    def _rename(self, parent: int, target: int, names: bytes) -> bytes:
        old, new = names.split(b"\0")[:2]
        parents = {
            "src_dir_fd": self.nodes[parent].handle,
            "dst_dir_fd": self.nodes[target].handle,
        }
        os.rename(old.decode(), new.decode(), **parents)
        return b""


def name_of(body: bytes) -> str:
    return body[: body.index(b"\0")].decode()


def opened(handle: int) -> bytes:
    return struct.pack("<QII", handle, 0, 0)


def attributes(number: int, found: os.stat_result) -> bytes:
    nanoseconds = found.st_atime_ns, found.st_mtime_ns, found.st_ctime_ns
    seconds = [time // 10**9 for time in nanoseconds]
    rests = [time % 10**9 for time in nanoseconds]
    owner = found.st_mode, found.st_nlink, found.st_uid, found.st_gid, 0, 4096, 0
    return struct.pack(
        "<QQQQQQIIIIIIIIII", number, found.st_size, found.st_blocks, *seconds, *rests, *owner
    )
