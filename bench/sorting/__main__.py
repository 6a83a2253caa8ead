# SPDX-License-Identifier: Apache-2.0
"""`make sort`: generates the records of the Sort Benchmark, sorts them by Spark through Lodestone,
and judges them; seconds of each phase."""

import argparse
import shutil
import sys
from pathlib import Path
from statistics import median

from harness.screen import say
from matrix import history, keeping, result, sides
from matrix.command_line import (
    CLUSTER,
    add_cluster,
    changed,
    command,
    draw,
    listed,
    results_at,
    setting_of,
)
from matrix.questions import MIN_ROUNDS
from matrix.ratios import Ratio

from . import page
from .minute import largest
from .run import MB, RECORD_BYTES, Sort

# Input, map outputs, merged partitions and output exist at the same time.
COPIES = 4
SPARE = 1.1
SIDES = [*sides.OPPONENTS, "auto", "lodestone", "remote"]
QUESTION = "sort-benchmark"
# Before the part of the kept text that is of MinuteSort.
MINUTE_PART = "\n== MinuteSort ==\n\n"
# One side only, with default settings: the question is how much, not which side.
MINUTE_SIDES = ["auto"]


def main() -> int:
    asked = arguments()
    folder = sides.CACHE / "sort"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    setting = setting_of(asked, folder)
    sort = Sort(setting, folder, asked.disks)
    sort_result = {
        **result.begun(setting, command("sorting"), asked.rounds, asked.changed),
        "disks": asked.disks,
        "minute": asked.minute,
    }
    keeping.warn(sort_result)
    try:
        if asked.minute:
            sort_result["runs"] += largest(sort, asked.sides[0], room(folder))
        else:
            refuse_too_large(asked.mb, folder)
            sort_result["runs"] += in_turn(sort, asked)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    keep(sort_result, results_at(asked.out, "sort"))
    return 0


def in_turn(sort: Sort, asked: argparse.Namespace) -> list[dict]:
    """Runs each side once a round, over one input."""
    records = asked.mb * MB // RECORD_BYTES
    say(f"== {asked.mb:,} MB in {records:,} records: generated")
    sort.generate(records)
    runs = []
    for number in range(1, asked.rounds + 1):
        for side in asked.sides:
            run = sort.once(side)
            runs.append(run | {"round": number})
            say(f"   round {number}, {side}: {page.sentence(run)}")
    return runs


def keep(sort_result: dict, path: Path) -> None:
    result.write(path.with_suffix(".json"), sort_result)
    text = page.of(sort_result)
    path.with_suffix(".txt").write_text(text)
    say("\n" + text)
    draw("sorting", path)
    keep_answer(sort_result, text)


def keep_answer(sort_result: dict, text: str, folder: Path = keeping.RESULTS) -> None:
    """Keeps the page as one of the two parts of the text, if it is a whole answer; and a line of
    history for each side."""
    keeper = keeping.Keeper(sort_result, folder)
    is_minute, has_default_sizes = sort_result["minute"], not sort_result["changed"]
    is_of_all_sides = {run["side"] for run in sort_result["runs"]} >= set(SIDES)
    if has_default_sizes and is_minute:
        keeper.part(QUESTION, lambda old: parts(old)[0] + MINUTE_PART + text)
    elif has_default_sizes and is_of_all_sides and sort_result["rounds"] >= MIN_ROUNDS:
        keeper.part(QUESTION, lambda old: text + "".join(parts(old)[1:]))
        keeper.ratios(QUESTION, ratios_of(sort_result))
    keeper.history(rows(sort_result, "minute-sort" if is_minute else QUESTION))


def parts(old: str) -> tuple[str, str, str]:
    """Returns the part of all sides, the line between, and the part of MinuteSort."""
    return old.partition(MINUTE_PART)


def ratios_of(sort_result: dict) -> list[Ratio]:
    """Returns the ratio of each side to the faster one of plain Spark's: the median of the
    rounds."""
    seconds = seconds_of(sort_result)
    base = min(sides.OPPONENTS, key=lambda side: median(seconds[side]))
    rounds = {
        side: [one / other for one, other in zip(own, seconds[base], strict=True)]
        for side, own in seconds.items()
    }
    return [
        Ratio(QUESTION, side, base, f"{median(of):.2f}", QUESTION, sort_result["commit"], "")
        for side, of in rounds.items()
        if side != base
    ]


def seconds_of(sort_result: dict) -> dict[str, list[float]]:
    """Returns the seconds of each side, round by round."""
    seconds: dict[str, list[float]] = {}
    for run in sort_result["runs"]:
        seconds.setdefault(run["side"], []).append(run["seconds"]["sort"])
    return seconds


def rows(sort_result: dict, question: str) -> list[history.Row]:
    """Returns seconds of each side; for MinuteSort the MB that were in time."""
    if sort_result["minute"]:
        best = page.fitting(sort_result["runs"])
        return [
            history.row(sort_result, question, run["side"], [run["bytes"] / MB]) for run in best
        ]
    seconds = seconds_of(sort_result)
    return [history.row(sort_result, question, side, of_side) for side, of_side in seconds.items()]


def room(folder: Path) -> int:
    """Returns the MB of records that the disk has room to sort."""
    return int(shutil.disk_usage(folder).free / COPIES / SPARE / MB)


def refuse_too_large(mb: int, folder: Path) -> None:
    if mb > room(folder):
        there = f"{folder} has room to sort {room(folder):,} MB, not {mb:,} MB"
        sys.exit(f"{there}: make room, or sort less.")


def arguments(words: list[str] | None = None) -> argparse.Namespace:
    """Parses the command line, unless other words are given."""
    parser = argparse.ArgumentParser(prog="sorting", description=__doc__)
    parser.add_argument(
        "--mb", type=int, default=2000, help="size of all records, in millions of bytes"
    )
    minute_help = "MinuteSort: the most that is sorted and judged within 60 s, by the first side"
    parser.add_argument("--minute", action="store_true", help=minute_help)
    sides_help = f"some of {SIDES} (all by default; with --minute {MINUTE_SIDES})"
    parser.add_argument("--sides", type=listed(SIDES), help=sides_help)
    parser.add_argument("--rounds", type=int, default=3)
    add_cluster(parser, memory_mb=2048)
    parser.add_argument("--disks", type=int, default=1, help="number of disks below the folder")
    parser.add_argument("--out", type=Path, help="results are OUT.json, OUT.txt and OUT.svg")
    asked = parser.parse_args(words)
    asked.sides = asked.sides or (MINUTE_SIDES if asked.minute else SIDES)
    asked.changed = changed(asked, parser, [*CLUSTER, "mb", "disks"])
    return asked


if __name__ == "__main__":
    sys.exit(main())
