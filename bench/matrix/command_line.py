# SPDX-License-Identifier: Apache-2.0
"""Common parts of the benches' command lines, and the paths of their results."""

import argparse
import fcntl
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path

from harness.screen import say

from .sides import CACHE, CODECS, ROOT, Setting

# The options of a cluster that make a result another one.
CLUSTER = ["spark", "executors", "cores", "memory"]
PLOTTER = ROOT / ".venv-bench" / "bin" / "python"


@contextmanager
def alone() -> Iterator[None]:
    """Makes sure that no other bench measures at the same time."""
    # Ends as an interrupt does, so that all processes are stopped.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))
    CACHE.mkdir(parents=True, exist_ok=True)
    with open(CACHE / "lock", "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            sys.exit("Another bench runs: two at a time measure each other.")
        yield


def listed(known: list[str]):
    """Returns a parser of `a,b` with known names."""

    def parse(text: str) -> list[str]:
        names = [name for name in text.split(",") if name]
        unknown = [name for name in names if name not in known]
        if unknown or not names:
            raise argparse.ArgumentTypeError(f"{unknown or 'nothing'} is not among {known}")
        return names

    return parse


def add_cluster(parser: argparse.ArgumentParser, memory_mb: int = 1024) -> None:
    """Adds the options that `setting_of` reads."""
    parser.add_argument("--spark", default="4.1.4", help="the release in .venv-RELEASE")
    parser.add_argument("--executors", type=int, default=2)
    parser.add_argument("--cores", type=int, default=1, help="cores of each executor")
    parser.add_argument(
        "--memory", type=int, default=memory_mb, help="memory of each executor, in MB"
    )


def setting_of(
    asked: argparse.Namespace,
    tables: Path,
    network_reads: bool = False,
    before: Path | None = None,
    codec: str = CODECS[0],
) -> Setting:
    return Setting(
        spark=asked.spark,
        executors=asked.executors,
        cores=asked.cores,
        memory_mb=asked.memory,
        network_reads=network_reads,
        tables=tables,
        before=before,
        codec=codec,
    )


def command(bench: str) -> str:
    """Returns the command that is running."""
    return shlex.join(["PYTHONPATH=e2e:bench", "python3", "-m", bench, *sys.argv[1:]])


def changed(asked: argparse.Namespace, parser: argparse.ArgumentParser, names: list[str]) -> dict:
    """Returns the options of these names that do not have their default value."""
    values = {name: getattr(asked, name) for name in names}
    return {name: value for name, value in values.items() if value != parser.get_default(name)}


def results_at(asked: Path | None, bench: str) -> Path:
    """Returns a new path of today, unless one was named. It is not in the repository: see
    `keeping`."""
    if asked:
        return asked
    folder = CACHE / "results"
    folder.mkdir(parents=True, exist_ok=True)
    name = f"{date.today():%Y-%m-%d}-{bench}"
    candidates = [folder / name, *(folder / f"{name}-{n}" for n in range(2, 1000))]
    return next(path for path in candidates if not path.with_suffix(".json").exists())


def draw(bench: str, path: Path) -> None:
    """Draws PATH.json as PATH.svg."""
    if PLOTTER.exists():
        subprocess.run([PLOTTER, "-m", f"{bench}.plots", path], check=True)
        say(f"Plots: {path.with_suffix('.svg')}")
    else:
        say(f"No plots: there is no {PLOTTER.parents[1].name} (`make bench` makes it).")
