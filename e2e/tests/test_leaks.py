# SPDX-License-Identifier: Apache-2.0
"""The search for secrets finds what was put where it looks."""

import base64
import os
import subprocess

import pytest

from harness.leaks import assert_kept, in_files, in_processes
from harness.secrets import SECRET


def wrapped(encoded: bytes, width: int) -> bytes:
    return encoded[:width] + b"\n" + encoded[width:]


@pytest.mark.parametrize(
    "form",
    [
        SECRET.encode(),
        wrapped(base64.b64encode(SECRET.encode() + b"\n"), 76),
        wrapped(base64.b64encode(SECRET.encode()), 64),
        base64.urlsafe_b64encode(SECRET.encode()),
        wrapped(SECRET.encode().hex().encode(), 60),
        base64.b64encode(SECRET.encode()),
        SECRET.encode().hex().encode(),
        SECRET.encode().hex().upper().encode(),
    ],
    ids=["text", "netty", "pem", "url-safe", "xxd", "base64", "hex", "hex-upper"],
)
def test_a_secret_in_a_log_is_found_in_each_of_its_forms(form, tmp_path):
    log = tmp_path / "app" / "0" / "stderr"
    log.parent.mkdir(parents=True)
    log.write_bytes(b"26/11/30 INFO Worker: the executor ends\n")
    assert in_files([tmp_path], SECRET) == []
    with log.open("ab") as more:
        more.write(b"26/11/30 DEBUG SecurityManager: it is " + form + b"\n")
    assert in_files([tmp_path], SECRET) == [log]
    with pytest.raises(AssertionError):
        assert_kept(SECRET, folders=[tmp_path])


def test_a_secret_in_a_report_is_found():
    assert_kept(SECRET, texts=[{"application": "app-1"}])
    with pytest.raises(AssertionError):
        assert_kept(SECRET, texts=[{"application": SECRET}])


def test_a_file_for_the_secret_is_right_only_if_nobody_else_can_read_it(tmp_path):
    file = tmp_path / "secret"
    file.write_text(SECRET)
    file.chmod(0o600)
    assert assert_kept(SECRET, folders=[tmp_path], is_for_it=file.__eq__) == [file]
    file.chmod(0o640)
    with pytest.raises(AssertionError):
        assert_kept(SECRET, folders=[tmp_path], is_for_it=file.__eq__)


@pytest.fixture
def sleeper():
    """Starts a process with words and variables, which waits until the test ends."""
    started = []

    def start(*words: str, **variables: str) -> int:
        waits = ["sh", "-c", "echo started; read end", *words]
        process = subprocess.Popen(
            waits, env=dict(os.environ) | variables, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        started.append(process)
        # Before that it may have the command line of this process.
        assert process.stdout.readline() == b"started\n"
        return process.pid

    yield start
    for process in started:
        process.communicate()


def test_a_secret_of_a_process_is_found_but_where_spark_puts_it_for_an_executor(sleeper):
    executor = sleeper("executor", _SPARK_AUTH_SECRET=SECRET)
    assert in_processes([executor], SECRET) == []
    daemon = sleeper("serve", _SPARK_AUTH_SECRET=SECRET)
    assert f"_SPARK_AUTH_SECRET of {daemon}" in in_processes([daemon], SECRET)[0]
    other = sleeper("executor", OTHER=f"-Dsecret={SECRET}")
    assert f"OTHER of {other}" in in_processes([other], SECRET)[0]
    named = sleeper("driver", f"--secret={SECRET}")
    assert in_processes([named], SECRET) == [f"command line of {named}"]
