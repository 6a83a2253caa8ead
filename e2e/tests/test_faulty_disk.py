# SPDX-License-Identifier: Apache-2.0
"""The disk that `make chaos` breaks really fails as demanded: otherwise `make chaos` would test
nothing."""

import errno
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotYet

import pytest

from harness.faulty_disk import faulty_disk

CONTENT = b"rows" * 100_000


@pytest.fixture
def disk(tmp_path):
    with faulty_disk(tmp_path / "disk", megabytes=4) as mounted:
        yield mounted


def test_a_disk_that_is_well_keeps_what_is_written_renamed_cut_and_appended(disk):
    first, folder = disk.directory / "first", disk.directory / "folder"
    first.write_bytes(CONTENT)
    folder.mkdir()
    first.rename(folder / "second")
    os.truncate(folder / "second", 1000)
    with (folder / "second").open("ab") as file:
        file.write(b"end")
    assert (folder / "second").read_bytes() == CONTENT[:1000] + b"end"
    assert sorted(path.name for path in disk.directory.rglob("*")) == ["folder", "second"]
    (folder / "second").unlink()
    folder.rmdir()
    assert list(disk.directory.iterdir()) == []


def test_a_disk_serves_also_where_its_process_has_a_thousand_files_open(tmp_path):
    many = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
    try:
        with faulty_disk(tmp_path / "disk", megabytes=4) as mounted:
            (mounted.directory / "rows").write_bytes(CONTENT)
            assert (mounted.directory / "rows").read_bytes() == CONTENT
    finally:
        for descriptor in many:
            os.close(descriptor)


def test_a_full_disk_takes_nothing_until_there_is_room_again(disk):
    disk.leave_room(8192)
    with pytest.raises(OSError) as full:
        (disk.directory / "rows").write_bytes(CONTENT)
    assert full.value.errno == errno.ENOSPC
    disk.heal()
    (disk.directory / "rows").write_bytes(CONTENT)
    assert (disk.directory / "rows").read_bytes() == CONTENT


@pytest.mark.parametrize("call", [os.stat, os.listdir, os.remove, lambda path: open(path, "rb")])
def test_a_broken_disk_gives_an_error_and_afterwards_what_it_had(disk, call):
    directory = disk.directory / "folder"
    directory.mkdir()
    disk.fail()
    with pytest.raises(OSError) as broken:
        call(directory)
    assert broken.value.errno == errno.EIO
    disk.mend()
    assert directory.is_dir()


def test_only_the_requested_number_of_calls_fails(disk):
    disk.fail(frozenset(["write"]), times=2)
    with (disk.directory / "rows").open("wb", buffering=0) as file:
        for _ in range(2):
            with pytest.raises(OSError, match="Input/output error"):
                file.write(b"lost")
        file.write(b"kept")
    assert (disk.directory / "rows").read_bytes() == b"kept"
    assert disk.failures == 2


def test_a_call_on_a_hanging_disk_waits_until_the_disk_continues(disk):
    path = disk.directory / "rows"
    disk.hang()
    asked = threading.Event()

    def write():
        asked.set()
        return path.write_bytes(CONTENT)

    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(write)
        asked.wait()
        with pytest.raises(NotYet):
            writing.result(timeout=0.2)
        disk.thaw()
        assert writing.result(timeout=10) == len(CONTENT)
    assert path.read_bytes() == CONTENT
