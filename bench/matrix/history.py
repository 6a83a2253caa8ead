# SPDX-License-Identifier: Apache-2.0
"""`bench/results/history.csv`: a line for each job and side of each result that was kept. The bench
appends lines, and never changes one."""

import csv
from collections.abc import Iterable
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from statistics import median

from .bars import is_full_size
from .questions import MIN_ROUNDS
from .sides import BY_NAME
from .summary import sections, sides_of, title_of, with_options


@dataclass(frozen=True)
class Row:
    """Texts as they are in the file. Units are in `bench/README.md`."""

    date: str
    commit: str
    machine: str
    job: str
    side: str
    median: str
    spread: str


def row(result: dict, job: str, side: str, values: Iterable[float]) -> Row:
    values = sorted(values)
    machine = result["machine"]
    is_before = side in BY_NAME and BY_NAME[side].is_before
    return Row(
        date=result["date"].removesuffix(" UTC"),
        commit=result["setting"]["before"] if is_before else result["commit"],
        machine=f"{machine['cpus']} x {machine['cpu']}, {machine['memoryGb']} GB",
        job=with_options(job, result["changed"]),
        side=side,
        median=f"{median(values):.2f}",
        spread=f"{values[0]:.2f}-{values[-1]:.2f}",
    )


def rows_of_matrix(result: dict) -> list[Row]:
    """Returns the seconds of each job that had its full size, on each side with enough rounds."""
    rows = []
    for disk, job in sections(result["runs"]):
        if not is_full_size(result, disk, job):
            continue
        for side in sides_of(result["runs"]):
            seconds = [
                run["figures"]["seconds"]
                for run in result["runs"]
                if (run["disk"], run["job"], run["side"]) == (disk, job, side)
                and not run["failure"]
            ]
            if len(seconds) >= MIN_ROUNDS:
                rows.append(row(result, title_of(disk, job), side, seconds))
    return rows


def append(path: Path, rows: list[Row]) -> None:
    is_new = not path.exists()
    with path.open("a", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        if is_new:
            writer.writerow([field.name for field in fields(Row)])
        writer.writerows(map(astuple, rows))
