# SPDX-License-Identifier: Apache-2.0
"""The questions that have a text in `bench/results`, and the choice of those that a run of the
matrix answers."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from harness.paths import SPARK_LINES

from .bars import is_full_size
from .sides import COMET, OPPONENTS

# Fewer rounds show nothing about the spread.
MIN_ROUNDS = 3
COLD = {"cold": True}
ZSTD = {"codec": "zstd"}
OLDER_COMETS_SPARK = {"spark": SPARK_LINES["3.5"]}
COMETS = (COMET, "comet-merge", "comet-remote")
MODES = (*OPPONENTS, "auto", "lodestone", "remote")


@dataclass(frozen=True)
class Question:
    """A question. A run answers it if it has all `jobs` on all `sides`, with these options only
    that differ from the default (`changed`). `more_jobs` are in the text if they were run."""

    name: str
    disk: str
    jobs: tuple[str, ...]
    sides: tuple[str, ...]
    more_jobs: tuple[str, ...] = ()
    changed: Mapping[str, object] = field(default_factory=dict)


OF_MATRIX = [
    Question("real-jobs", "plain", ("sort", "tiny", "sql"), MODES, ("groups", "rows")),
    Question("cold", "plain", ("sort", "tiny", "sql", "groups", "rows"), MODES, changed=COLD),
    Question("tpch", "plain", ("tpch",), MODES),
    Question("zstd", "plain", ("tpch",), MODES, changed=ZSTD),
    Question("throttled", "throttled", ("sort", "tiny", "sql"), MODES, ("tpch",)),
    Question(
        "network", "network", ("tpch",), (*OPPONENTS, "auto", "remote"), ("sort", "tiny", "sql")
    ),
    Question("copies", "plain", ("sort",), (*OPPONENTS, "two", "copies")),
    Question("comet", "plain", ("tpch",), COMETS, changed=OLDER_COMETS_SPARK),
    Question("comet-spark-4", "plain", ("tpch",), COMETS),
]
# The texts that other commands make.
OTHERS = [
    "tpcds",
    "sort-benchmark",
    "waves",
    "stress",
    "chaos",
    "conformance",
    "encryption",
    "plan",
    "newcomer",
]
NAMES = [*(question.name for question in OF_MATRIX), *OTHERS]


def answered(result: dict) -> dict[str, dict]:
    """Returns for each question that this run answers, by name, the part of the result that belongs
    to it."""
    return {
        question.name: part_for(result, question)
        for question in OF_MATRIX
        if is_answered(result, question)
    }


def is_answered(result: dict, question: Question) -> bool:
    """Returns whether every job succeeded on every side, in each of enough rounds, with its default
    sizes and no other options than those of the question."""
    if result["changed"] != question.changed:
        return False
    runs = {
        (run["disk"], run["job"], run["side"], run["round"])
        for run in result["runs"]
        if not run["failure"]
    }
    return result["rounds"] >= MIN_ROUNDS and all(
        is_full_size(result, question.disk, job) and (question.disk, job, side, number) in runs
        for job in question.jobs
        for side in question.sides
        for number in range(1, result["rounds"] + 1)
    )


def part_for(result: dict, question: Question) -> dict:
    jobs = (*question.jobs, *question.more_jobs)
    runs = [
        run
        for run in result["runs"]
        if run["disk"] == question.disk
        and run["job"] in jobs
        and is_full_size(result, question.disk, run["job"])
    ]
    return {**result, "runs": runs}
