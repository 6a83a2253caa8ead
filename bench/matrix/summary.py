# SPDX-License-Identifier: Apache-2.0
"""Medians, spread and ratios over the runs of a result."""

from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True)
class Spread:
    """Of one figure over the rounds."""

    median: float
    least: float
    most: float


@dataclass(frozen=True)
class Cell:
    """One side at one job on one disk. `ratios` are medians of the rounds' ratios to another side: what slowed a round slowed both."""

    figures: dict[str, Spread]
    ratios: dict[str, float]
    rounds: int
    failures: list[str]


def cell(runs: list[dict], disk: str, job: str, side: str, base: str = "plain") -> Cell:
    of_job = [run for run in runs if (run["disk"], run["job"]) == (disk, job)]
    ours = [run for run in of_job if run["side"] == side]
    done = [run for run in ours if not run["failure"]]
    others = {r["round"]: r["figures"] for r in of_job if r["side"] == base and not r["failure"]}
    names = {name for run in done for name in run["figures"]}
    figures, ratios = {}, {}
    for name in names:
        values = [run["figures"][name] for run in done if name in run["figures"]]
        figures[name] = Spread(median(values), min(values), max(values))
        pairs = [
            run["figures"][name] / others[run["round"]][name]
            for run in done
            if name in run["figures"] and others.get(run["round"], {}).get(name)
        ]
        if pairs:
            ratios[name] = median(pairs)
    return Cell(figures, ratios, len(done), [run["failure"] for run in ours if run["failure"]])


def sections(runs: list[dict]) -> list[tuple[str, str]]:
    """Disk and job of each table, in the order of the first runs."""
    return list(dict.fromkeys((run["disk"], run["job"]) for run in runs))


def sides_of(runs: list[dict]) -> list[str]:
    return sorted({run["side"] for run in runs}, key=lambda name: first_of(runs, name))


def first_of(runs: list[dict], side: str) -> int:
    return next(at for at, run in enumerate(runs) if run["side"] == side)
