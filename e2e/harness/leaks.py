# SPDX-License-Identifier: Apache-2.0
"""A search for a secret where others could read it: command lines and environments of processes,
files, and texts such as a report."""

import base64
import os
from collections.abc import Callable, Iterable
from pathlib import Path

from .processes import command_line

# Spark gives the secret to executors in this variable, and they to their Python workers.
SPARKS_OWN = b"_SPARK_AUTH_SECRET="
# Encoders break lines after 60 characters or more.
LINE = 60
URL_SAFE = bytes.maketrans(b"+/", b"-_")


def forms(secret: str) -> list[bytes]:
    """Returns what shows a secret: its text, and what every Base64 and hexadecimal form of a text
    that begins with it has."""
    text = secret.encode()
    assert len(text) >= 16, "what is shorter is found everywhere"
    whole_groups = text[: len(text) // 3 * 3]
    encoded = base64.b64encode(whole_groups)[:LINE]
    digits = text.hex().encode()[:LINE]
    return [text, encoded, encoded.translate(URL_SAFE), digits, digits.upper()]


def is_in(content: bytes | str, *secrets: str) -> bool:
    content = content.encode() if isinstance(content, str) else content
    return any(form in content for secret in secrets for form in forms(secret))


def in_processes(pids: Iterable[int], *secrets: str) -> list[str]:
    """Returns a line for each process whose command line or environment has a secret. The variable
    in which Spark gives it to an executor is no finding, except in a daemon."""
    return [found for pid in pids for found in _in_process(pid, secrets)]


def _in_process(pid: int, secrets: tuple[str, ...]) -> list[str]:
    words = command_line(pid)
    found = [f"command line of {pid}"] if is_in("\0".join(words), *secrets) else []
    for variable in _environment(pid):
        is_sparks = variable.startswith(SPARKS_OWN) and "serve" not in words
        if not is_sparks and is_in(variable, *secrets):
            name = variable.partition(b"=")[0].decode(errors="replace")
            found.append(f"variable {name} of {pid}: {' '.join(words)[:200]}")
    return found


def _environment(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except (FileNotFoundError, ProcessLookupError):
        return []  # it has ended


def in_files(folders: Iterable[Path], *secrets: str) -> list[Path]:
    """Returns the files below folders, or named themselves, that have a secret."""
    files = (path for folder in folders for path in _files_below(folder))
    return [path for path in files if is_in(_content(path), *secrets)]


def _files_below(folder: Path) -> Iterable[Path]:
    if folder.is_file():
        yield folder
    # Folders may go meanwhile.
    for parent, _, names in os.walk(folder):
        yield from (Path(parent, name) for name in names)


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes() if path.is_file() else b""
    except OSError as error:
        # A job that goes on removes files.
        assert not path.exists(), error
        return b""


def assert_kept(
    *secrets: str,
    pids: Iterable[int] = (),
    folders: Iterable[Path] = (),
    texts: Iterable[object] = (),
    is_for_it: Callable[[Path], bool] = lambda path: False,
    is_of_the_manager: Callable[[Path], bool] = lambda path: False,
) -> list[Path]:
    """Fails if a secret is in a process, in a text, or in a file that is not there for it. Only
    their owner may read those that are: they are returned. Files of a cluster manager are its own
    concern."""
    assert in_processes(pids, *secrets) == []
    for text in texts:
        assert not is_in(str(text), *secrets), "a report or a log has the secret"
    found = [path for path in in_files(folders, *secrets) if not is_of_the_manager(path)]
    holders = [path for path in found if is_for_it(path)]
    assert [path for path in found if path not in holders] == []
    for path in holders:
        assert _mode(path) in (0o600, None), path
    return holders


def _mode(path: Path) -> int | None:
    try:
        return path.stat().st_mode & 0o777
    except FileNotFoundError:
        return None
