# SPDX-License-Identifier: Apache-2.0
"""A machine that has Python and Java alone, and the two commands that lead from there to a job with
a merged shuffle, as the page to get started has them."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from .documented import block, joined
from .kept import kept
from .paths import ROOT, python_of

PAGE = "docs/get-started.md"
HEADING = "In two commands"
TIMEOUT_S = 600
# What may lead a command to another Python or Spark than those of the machine.
LEADS_ELSEWHERE = ("SPARK", "PYSPARK", "PYTHON", "PIP_", "VIRTUAL_ENV")


@dataclass(frozen=True)
class Ran:
    """A command that succeeded, and what it took."""

    command: str
    seconds: float
    stdout: str
    stderr: str


def two_commands() -> list[str]:
    return list(joined(block(PAGE, HEADING)))


def release() -> str:
    """Returns the release of PySpark that the page names."""
    [found] = re.findall(r"pyspark==(\S+)", "\n".join(two_commands()))
    return found


def packages() -> Path:
    """Returns a folder with PySpark and what it needs, so that pip downloads nothing."""

    def fill(folder: Path) -> None:
        pip = [python_of(release()), "-m", "pip", "wheel", "-q", "-w", folder]
        subprocess.run([*pip, f"pyspark=={release()}"], check=True)

    return kept(ROOT / ".cache" / f"wheels-{release()}", fill)


@contextmanager
def machine() -> Iterator[Path]:
    """Makes a folder with an environment that has pip alone, with the package of Lodestone, and
    with the job of the page."""
    # The daemon that the plugin starts lives on for a minute, and removes its files then.
    with TemporaryDirectory(prefix="lodestone-newcomer-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
        (folder / "dist").symlink_to(ROOT / "dist")
        program = "\n".join(block(PAGE, "2. Write a job", "python"))
        (folder / "first.py").write_text(program + "\n")
        yield folder


def run(folder: Path, command: str) -> Ran:
    """Runs a command on this machine as it is typed. Fails with its output if it fails."""
    begin = time.monotonic()
    done = subprocess.run(
        command,
        shell=True,
        cwd=folder,
        env=variables(folder),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )
    seconds = time.monotonic() - begin
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr[-8000:]}"
    return Ran(command, seconds, done.stdout, done.stderr)


def variables(folder: Path) -> dict[str, str]:
    own = {k: v for k, v in os.environ.items() if not k.startswith(LEADS_ELSEWHERE)}
    path = [each for each in os.environ["PATH"].split(":") if not is_of_spark(Path(each))]
    return {
        **own,
        "PATH": ":".join([f"{folder}/venv/bin", *path]),
        "PIP_FIND_LINKS": str(packages()),
        "PIP_NO_INDEX": "1",
        "SPARK_LOCAL_DIRS": f"{folder}/local",
        "SPARK_LOCAL_IP": "127.0.0.1",
    }


def is_of_spark(folder: Path) -> bool:
    return (folder / "spark-submit").exists()


def sums(submit: Ran) -> str:
    """Returns the last line that Lodestone has in the driver's log: what became of all shuffles."""
    lines = [line for line in submit.stderr.splitlines() if "lodestone: " in line]
    assert lines, f"the log has no line of Lodestone:\n{submit.stderr[-8000:]}"
    return lines[-1].partition("lodestone: ")[2]
