# SPDX-License-Identifier: Apache-2.0
"""`bench/results/ratios.csv`: the latest ratios of seconds to plain Spark, which are the source of
the table in README.md."""

import csv
from dataclasses import astuple, dataclass, fields
from pathlib import Path

from .questions import OF_MATRIX
from .summary import Cell, cell, sections, sides_of, title_of, with_options


@dataclass(frozen=True)
class Ratio:
    """Seconds of a job on a side, relative to those on the side `base`; `result` is the text that
    has it too.

    The remark is a result besides the time, as the predicate of a sentence: `merged 0 MB (shuffled:
    2,121 MB)`.
    """

    job: str
    side: str
    base: str
    ratio: str
    result: str
    commit: str
    remark: str


def of_matrix(question: str, part: dict) -> list[Ratio]:
    """Returns all ratios of one question."""
    (disk,) = {known.disk for known in OF_MATRIX if known.name == question}
    found = []
    for _, job in sections(part["runs"]):
        for side in sides_of(part["runs"]):
            of = cell(part["runs"], disk, job, side)
            if side != of.base and "seconds" in of.ratios:
                name = with_options(title_of(disk, job), part["changed"])
                ratio = f"{of.ratios['seconds']:.2f}"
                found.append(
                    Ratio(name, side, of.base, ratio, question, part["commit"], remark(of))
                )
    return found


def remark(of: Cell) -> str:
    """Returns how much of its shuffles a side merged, if that was measured."""
    figures = [of.figures.get(name) for name in ("mergedMb", "writtenMb")]
    if None in figures:
        return ""
    merged, written = (figure.median for figure in figures)
    return f"merged {merged:,.0f} MB (shuffled: {written:,.0f} MB)"


def read(path: Path) -> list[Ratio]:
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return [Ratio(**line) for line in csv.DictReader(file)]


def replace(path: Path, result: str, found: list[Ratio]) -> None:
    """Writes the ratios of one text, in place of those that the file has of it."""
    others = [ratio for ratio in read(path) if ratio.result != result]
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([field.name for field in fields(Ratio)])
        writer.writerows(map(astuple, sorted([*others, *found], key=lambda one: one.result)))
