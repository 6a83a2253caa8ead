# SPDX-License-Identifier: Apache-2.0
"""Measures the two commands that lead from a machine with Python and Java alone to a job with a
merged shuffle, each round in a new environment. Downloads are not measured."""

import argparse
import platform
import re
import statistics
import subprocess
from datetime import datetime, timezone

from harness import newcomer
from harness.newcomer import Ran
from harness.screen import say
from matrix import keeping, result
from matrix.command_line import alone, command
from matrix.questions import MIN_ROUNDS

MB = 1_000_000
MERGED = "1 of 1 shuffles merged"


def main() -> int:
    parser = argparse.ArgumentParser(prog="newcomer", description=__doc__)
    parser.add_argument("--rounds", type=int, default=MIN_ROUNDS)
    rounds = parser.parse_args().rounds
    made = {
        "date": datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "commit": result.commit(),
        "command": command("newcomer"),
        "machine": result.machine(),
        "setting": {},
    }
    keeping.warn(made)
    with alone():
        # Fetched before the first round, if they are not here.
        newcomer.packages()
        page = text(made, [measured() for _ in range(rounds)])
    say("\n" + page)
    if rounds >= MIN_ROUNDS:
        keeping.Keeper(made).text("newcomer", page, [])
    return 0


def measured() -> list[Ran]:
    with newcomer.machine() as folder:
        ran = [newcomer.run(folder, typed) for typed in newcomer.two_commands()]
    sums = newcomer.sums(ran[-1])
    assert sums.startswith(MERGED), sums
    say(f"== {', '.join(f'{one.seconds:.1f} s' for one in ran)}: {sums}")
    return ran


def text(made: dict, rounds: list[list[Ran]]) -> str:
    """Returns the result as a person reads it."""
    machine = made["machine"]
    size = sum(one.stat().st_size for one in newcomer.packages().iterdir())
    lines = [
        f"{made['date']}, commit {made['commit']}: {made['command']}",
        f"{machine['cpus']} x {machine['cpu']}, {machine['memoryGb']} GB, {machine['system']}, "
        f"Python {platform.python_version()}, Java {java()}",
        "From an environment with pip alone to a job with a merged shuffle: the two commands of "
        f"{newcomer.PAGE} ({newcomer.HEADING}), each round in a new environment. pip finds "
        f"PySpark {newcomer.release()} and what it needs ({size / MB:.0f} MB) in a folder: their "
        "download is not in the seconds.",
        "",
    ]
    seconds = [[one.seconds for one in ran] for ran in rounds]
    for typed, each in zip(newcomer.two_commands(), zip(*seconds, strict=True), strict=True):
        lines.append(f"{figures(each)}  {typed}")
    lines += [
        f"{figures([sum(each) for each in seconds])}  both",
        "",
        f"Median of {len(rounds)} rounds, and each of them. Each round: {MERGED}.",
    ]
    return "\n".join(lines) + "\n"


def figures(seconds) -> str:
    each = ", ".join(f"{one:.1f}" for one in seconds)
    return f"{statistics.median(seconds):5.1f} s ({each})"


def java() -> str:
    said = subprocess.run(["java", "-version"], check=True, capture_output=True, text=True).stderr
    return re.search(r'version "([^"]+)"', said)[1]


if __name__ == "__main__":
    raise SystemExit(main())
