# SPDX-License-Identifier: Apache-2.0
"""The gains in the figures of a comparison. The terminal and the page show the same."""

from collections.abc import Callable
from dataclasses import dataclass

from . import numbers

FIGURES = ("seconds", "cpuSeconds", "filesCreated", "reads")
# Each job runs once on each side: a smaller difference is neither a gain nor a loss.
NOISE = 0.1
# Sentences that explain a smaller number.
WHY_FILES = (
    "Up to 200 partitions, the writer of plain Spark makes one file for each partition in each "
    "map task, and then joins them. Lodestone's writer makes one data file."
)
WHY_CPU = (
    "Executors, driver and Lodestone's daemon together. Each file and each read costs system "
    "calls, streams and requests."
)
WHY_NO_FILES = "The writers made about as many files."
WHY_NO_READS = "No shuffle was merged, so that each block was read by itself."


@dataclass(frozen=True)
class Gain:
    """One figure over all jobs, and the reason of its difference. `name` is for people."""

    name: str
    figure: str
    unit: str
    plain: float
    lodestone: float
    text: Callable[[float], str]
    why: str

    @property
    def ratio(self) -> float:
        return self.lodestone / self.plain if self.plain else 1.0

    def __str__(self) -> str:
        unit = f" {self.unit}" if self.unit else ""
        plain, lodestone = self.text(self.plain), self.text(self.lodestone)
        return f"{plain}{unit} -> {lodestone}{unit} ({numbers.ratio(self.ratio)})"


def of(comparison: dict) -> list[Gain]:
    """Returns time, CPU, files and reads over all jobs."""
    plain, lodestone = (totals(comparison["jobs"], side) for side in ("plain", "lodestone"))

    def gain(name: str, figure: str, unit: str, text, why: str) -> Gain:
        return Gain(name, figure, unit, plain[figure], lodestone[figure], text, why)

    has_fewer_files = lodestone["filesCreated"] < plain["filesCreated"] * (1 - NOISE)
    why_files = WHY_FILES if has_fewer_files else WHY_NO_FILES
    return [
        gain("Time", "seconds", "s", numbers.seconds, why_time(comparison)),
        gain("CPU time", "cpuSeconds", "s", numbers.seconds, WHY_CPU),
        gain("Files created", "filesCreated", "", numbers.count, why_files),
        gain("Reads", "reads", "", numbers.count, why_reads(comparison)),
    ]


def totals(jobs: list[dict], side: str) -> dict:
    return {figure: sum(job[side][figure] for job in jobs) for figure in FIGURES}


def why_time(comparison: dict) -> str:
    """Returns a sentence about the job that changed most, and about all jobs."""
    most = max(comparison["jobs"], key=lambda job: abs(saved(job)))
    verb = "saves" if saved(most) > 0 else "loses"
    total = sum(saved(job) for job in comparison["jobs"])
    return (
        f"{most['title']} {verb} {abs(saved(most)):.1f} s; "
        f"all jobs together {'save' if total > 0 else 'lose'} {abs(total):.1f} s."
    )


def why_reads(comparison: dict) -> str:
    merged = [
        shuffle for job in comparison["jobs"] for shuffle in job["shuffles"] if is_merged(shuffle)
    ]
    if not merged:
        return WHY_NO_READS
    shuffles = sum(len(job["shuffles"]) for job in comparison["jobs"])
    blocks = sum(shuffle["mergedBlocksRead"] for shuffle in merged)
    chunks = sum(shuffle["chunksRead"] for shuffle in merged)
    return (
        f"Mode auto merged {len(merged)} of {shuffles} shuffles: "
        f"{numbers.count(blocks)} blocks became {numbers.count(chunks)} chunks, "
        "and a chunk is one read."
    )


def saved(job: dict) -> float:
    """Returns seconds, which are below zero if Lodestone takes longer."""
    return job["plain"]["seconds"] - job["lodestone"]["seconds"]


def ratio(job: dict, figure: str = "seconds") -> float:
    return job["lodestone"][figure] / job["plain"][figure] if job["plain"][figure] else 1.0


def faster(comparison: dict) -> list[dict]:
    return [job for job in comparison["jobs"] if ratio(job) < 1 - NOISE]


def slower(comparison: dict) -> list[dict]:
    return [job for job in comparison["jobs"] if ratio(job) > 1 + NOISE]


def unchanged(comparison: dict) -> list[dict]:
    moved = faster(comparison) + slower(comparison)
    return [job for job in comparison["jobs"] if job not in moved]


def with_more_reads(comparison: dict) -> list[dict]:
    return [job for job in comparison["jobs"] if job["lodestone"]["reads"] > job["plain"]["reads"]]


def named(jobs: list[dict]) -> str:
    """Returns titles with their ratios of time."""
    return ", ".join(f"{job['title']} ({numbers.ratio(ratio(job))})" for job in jobs)


def is_merged(shuffle: dict) -> bool:
    return shuffle["state"] == "merged"
