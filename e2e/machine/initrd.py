# SPDX-License-Identifier: Apache-2.0
"""The first files of a kernel: an archive of cpio's form `newc`, as its documentation
(`initramfs/buffer-format`) has it."""

import stat
from pathlib import PurePosixPath

MAGIC = "070701"
END = "TRAILER!!!"


def archive(folders: list[str], files: dict[str, tuple[int, bytes]]) -> bytes:
    """Packs folders, and files with their permissions. The folders of files are made too."""
    needed = {str(parent) for name in files for parent in PurePosixPath(name).parents}
    all_folders = sorted((needed | set(folders)) - {"."})
    packed = [entry(name, stat.S_IFDIR | 0o755, b"") for name in all_folders]
    packed += [entry(name, stat.S_IFREG | mode, data) for name, (mode, data) in files.items()]
    return b"".join([*packed, entry(END, 0, b"")])


def entry(name: str, mode: int, data: bytes) -> bytes:
    # Inode, mode, user, group, links, time, size, four numbers of devices, length of the name, 0.
    fields = (0, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name) + 1, 0)
    head = MAGIC + "".join(f"{field:08X}" for field in fields) + name + "\0"
    return padded(head.encode()) + padded(data)


def padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)
