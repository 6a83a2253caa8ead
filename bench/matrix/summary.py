# SPDX-License-Identifier: Apache-2.0
"""Medians, spread and ratios over the runs of a result."""

from dataclasses import dataclass
from statistics import median

from .sides import COMET, OPPONENTS


@dataclass(frozen=True)
class Spread:
    """The spread of one figure over the rounds."""

    median: float
    least: float
    most: float


@dataclass(frozen=True)
class Cell:
    """One side at one job on one disk.

    `ratios` are medians of the rounds' ratios to the side `base`: a disturbance of a round slows
    both.
    """

    figures: dict[str, Spread]
    ratios: dict[str, float]
    rounds: int
    failures: list[str]
    base: str


def opponent(runs: list[dict], disk: str, job: str) -> str:
    """Returns the base of all ratios of a table: the side of plain Spark that took less time, or
    Comet with its own shuffle, if no plain Spark was run.

    It is one side for all figures, because a user can have one of the two, not the best figure of
    both.
    """
    plain, tuned = OPPONENTS
    ratio = cell(runs, disk, job, tuned, plain).ratios.get("seconds")
    if ratio is None:
        done = [side for side in (plain, tuned, COMET) if has_done(runs, disk, job, side)]
        return done[0] if done else tuned
    return tuned if ratio < 1 else plain


def has_done(runs: list[dict], disk: str, job: str, side: str) -> bool:
    where = (disk, job, side)
    return any((r["disk"], r["job"], r["side"]) == where and not r["failure"] for r in runs)


def cell(runs: list[dict], disk: str, job: str, side: str, base: str | None = None) -> Cell:
    """Returns the figures of a side. Ratios are to `base`, by default to the opponent."""
    base = base or opponent(runs, disk, job)
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
    failures = [run["failure"] for run in ours if run["failure"]]
    return Cell(figures, ratios, len(done), failures, base)


def title_of(disk: str, job: str) -> str:
    """Returns a job on a disk, as `sort` or `throttled sort`."""
    return job if disk == "plain" else f"{disk} {job}"


def place(disk: str) -> str:
    """Returns what jobs ran on, as `plain disk`."""
    return "a host for each executor, 1 Gbit/s" if disk == "network" else f"{disk} disk"


def with_options(job: str, changed: dict) -> str:
    """Returns the job with each option that differs from the default: `sort, cold`, `tpch,
    scale_factor 5`."""
    options = [name if value is True else f"{name} {value}" for name, value in changed.items()]
    return ", ".join([job, *options])


def sections(runs: list[dict]) -> list[tuple[str, str]]:
    """Returns disk and job of each table, in the order of the first runs."""
    return list(dict.fromkeys((run["disk"], run["job"]) for run in runs))


def sides_of(runs: list[dict]) -> list[str]:
    return sorted({run["side"] for run in runs}, key=lambda name: first_of(runs, name))


def first_of(runs: list[dict], side: str) -> int:
    return next(at for at, run in enumerate(runs) if run["side"] == side)
