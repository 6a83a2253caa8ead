# SPDX-License-Identifier: Apache-2.0
"""Unpacks an RPM package, on hosts without rpm: two headers, and an archive of files."""

import gzip
import struct
from pathlib import Path

LEAD_BYTES = 96
# Each header begins with a magic number, the number of index entries, and the bytes of the values.
INTRO_BYTES, ENTRY_BYTES = 16, 16
# Of each file: a magic number and thirteen numbers of eight hexadecimal digits.
FILE_BYTES = 110
MODE, SIZE, NAME_SIZE = 1, 6, 11
LAST = "TRAILER!!!"
# The tag of the script that runs after an installation.
AFTER_INSTALLATION = 1024


def unpack(package: Path, folder: Path) -> None:
    """Writes the files of the package, with their modes, below a folder."""
    content = package.read_bytes()
    header = _header(content)
    archive = gzip.decompress(content[header + _header_bytes(content, header) :])
    at = 0
    while True:
        assert archive[at : at + 6] == b"070701", "no archive of this kind"
        numbers = [int(archive[at + 6 + 8 * i : at + 14 + 8 * i], 16) for i in range(13)]
        name_at = at + FILE_BYTES
        name = archive[name_at : name_at + numbers[NAME_SIZE] - 1].decode()
        if name == LAST:
            return
        begin = _aligned(name_at + numbers[NAME_SIZE])
        at = _aligned(begin + numbers[SIZE])
        path = folder / name.lstrip("./")
        if numbers[MODE] & 0o170000 == 0o040000:
            path.mkdir(parents=True, exist_ok=True)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(archive[begin : begin + numbers[SIZE]])
        path.chmod(numbers[MODE] & 0o7777)


def script_after_installation(package: Path) -> str:
    content = package.read_bytes()
    header = _header(content)
    index = header + INTRO_BYTES
    count = int.from_bytes(content[header + 8 : header + 12], "big")
    values = index + ENTRY_BYTES * count
    for tag, _, offset, _ in struct.iter_unpack(">4I", content[index:values]):
        if tag == AFTER_INSTALLATION:
            begin = values + offset
            return content[begin : content.index(b"\0", begin)].decode()
    raise AssertionError("no script runs after an installation")


def _header(content: bytes) -> int:
    """Returns where the header is that describes the package, after that of its signature."""
    signature_end = LEAD_BYTES + _header_bytes(content, LEAD_BYTES)
    return -(-signature_end // 8) * 8


def _header_bytes(content: bytes, at: int) -> int:
    assert content[at : at + 3] == b"\x8e\xad\xe8", "no header of RPM"
    entries, values = (int.from_bytes(content[at + i : at + i + 4], "big") for i in (8, 12))
    return INTRO_BYTES + ENTRY_BYTES * entries + values


def _aligned(at: int) -> int:
    return -(-at // 4) * 4
