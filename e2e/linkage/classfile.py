# SPDX-License-Identifier: Apache-2.0
"""A part of the class file format (JVMS chapter 4): what a class needs and what it offers."""

import struct
from dataclasses import dataclass, field

ACC_PRIVATE = 0x0002
ACC_ABSTRACT = 0x0400
ACC_INTERFACE = 0x0200

# Bytes after the tag of each constant, JVMS table 4.4-B. Utf8 (1) is of variable length.
CONSTANT_SIZES = {
    3: 4, 4: 4, 5: 8, 6: 8, 7: 2, 8: 2, 9: 4, 10: 4, 11: 4, 12: 4,
    15: 3, 16: 2, 17: 4, 18: 4, 19: 2, 20: 2,
}  # fmt: skip
UTF8, LONG, DOUBLE, CLASS, FIELD_REF, METHOD_REF, INTERFACE_METHOD_REF, NAME_AND_TYPE = (
    1, 5, 6, 7, 9, 10, 11, 12,
)  # fmt: skip


@dataclass
class ClassFile:
    """The declarations of one class, and the members of other classes that its code names."""

    name: str
    access: int
    parent: str | None
    interfaces: list[str]
    members: dict[tuple[str, str], int] = field(default_factory=dict)
    references: set[tuple[str, str, str]] = field(default_factory=set)

    @property
    def is_abstract(self) -> bool:
        return bool(self.access & (ACC_ABSTRACT | ACC_INTERFACE))


class _Cursor:
    def __init__(self, data: bytes):
        self.data = data
        self.at = 0

    def take(self, layout: str):
        values = struct.unpack_from(">" + layout, self.data, self.at)
        self.at += struct.calcsize(">" + layout)
        return values[0] if len(values) == 1 else values

    def skip(self, count: int) -> None:
        self.at += count


def parse(data: bytes) -> ClassFile:
    """Reads a class file; raises ValueError when it is none."""
    cursor = _Cursor(data)
    if cursor.take("I") != 0xCAFEBABE:
        raise ValueError("not a class file")
    cursor.skip(4)
    pool = _constant_pool(cursor)

    def class_name(index: int) -> str:
        return pool[pool[index][1]][1]

    access, this, parent, interface_count = cursor.take("HHHH")
    interfaces = [class_name(cursor.take("H")) for _ in range(interface_count)]
    parsed = ClassFile(class_name(this), access, class_name(parent) if parent else None, interfaces)
    for _ in range(2):  # fields, then methods
        for _ in range(cursor.take("H")):
            member_access, name, descriptor = cursor.take("HHH")
            parsed.members[(pool[name][1], pool[descriptor][1])] = member_access
            _skip_attributes(cursor)
    parsed.references = _references(pool, class_name)
    return parsed


def _constant_pool(cursor: _Cursor) -> dict[int, tuple]:
    pool: dict[int, tuple] = {}
    count = cursor.take("H")
    index = 1
    while index < count:
        tag = cursor.take("B")
        if tag == UTF8:
            length = cursor.take("H")
            text = cursor.data[cursor.at : cursor.at + length].decode("utf-8", "replace")
            cursor.skip(length)
            pool[index] = (tag, text)
        elif tag in (CLASS, FIELD_REF, METHOD_REF, INTERFACE_METHOD_REF, NAME_AND_TYPE):
            values = cursor.take("H" if tag == CLASS else "HH")
            pool[index] = (tag, values) if tag == CLASS else (tag, *values)
        else:
            cursor.skip(CONSTANT_SIZES[tag])
        index += 2 if tag in (LONG, DOUBLE) else 1
    return pool


def _skip_attributes(cursor: _Cursor) -> None:
    for _ in range(cursor.take("H")):
        cursor.skip(2)
        cursor.skip(cursor.take("I"))


def _references(pool: dict[int, tuple], class_name) -> set[tuple[str, str, str]]:
    found = set()
    for entry in pool.values():
        if entry[0] in (FIELD_REF, METHOD_REF, INTERFACE_METHOD_REF):
            _, owner, name_and_type = entry
            _, name, descriptor = pool[name_and_type]
            found.add((class_name(owner), pool[name][1], pool[descriptor][1]))
    return found
