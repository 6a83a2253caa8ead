# SPDX-License-Identifier: Apache-2.0
"""The whole of TPC-DS as one job: the seconds of all queries together."""

from statistics import median

from matrix import history
from matrix.history import Row
from matrix.ratios import Ratio
from matrix.sides import OPPONENTS
from matrix.summary import Cell, cell

JOB = "tpcds"
# A query that takes more than this many times the base's seconds counts as slower.
SLOWER = 1.2
MUCH = f"more than {SLOWER - 1:.0%}"


def opponent(result: dict) -> str:
    """Returns the base of all ratios of the page: the one of plain and tuned with less seconds in
    all.

    One query in one round says little about which of the two is faster.
    """
    plain, tuned = (seconds_of(result, side) for side in OPPONENTS)
    both = plain.keys() & tuned.keys()
    if not both:
        return OPPONENTS[0] if plain or not tuned else OPPONENTS[1]
    is_tuned_faster = sum(tuned[run] for run in both) < sum(plain[run] for run in both)
    return OPPONENTS[is_tuned_faster]


def seconds_of(result: dict, side: str) -> dict[tuple, float]:
    """Returns one side's seconds of each query in each round."""
    done = [run for run in result["runs"] if run["side"] == side and not run["failure"]]
    return {(run["round"], run["job"]): run["figures"]["querySeconds"] for run in done}


def sums_of(result: dict) -> dict[str, list[float]]:
    """Returns each side's seconds in each round, over the queries that all sides did in this
    round."""
    seconds = {side: seconds_of(result, side) for side in result["sides"]}
    done = set.intersection(*(set(of_side) for of_side in seconds.values()))
    rounds = sorted({number for number, _ in done})
    return {
        side: [sum(of_side[run] for run in done if run[0] == number) for number in rounds]
        for side, of_side in seconds.items()
    }


def ratios_of_sums(result: dict, base: str) -> dict[str, float]:
    """Returns for each side the median of the rounds' ratios of these sums to those of the base."""
    sums = sums_of(result)
    if not sums.get(base):
        return {}
    return {
        side: median(ours / others for ours, others in zip(of_side, sums[base], strict=True))
        for side, of_side in sums.items()
    }


def history_of(result: dict) -> list[Row]:
    return [history.row(result, JOB, side, sums) for side, sums in sums_of(result).items() if sums]


def ratios_of(result: dict) -> list[Ratio]:
    base = opponent(result)
    return [
        Ratio(JOB, side, base, f"{ratio:.2f}", JOB, result["commit"], remark(result, side, base))
        for side, ratio in ratios_of_sums(result, base).items()
        if side != base
    ]


def remark(result: dict, side: str, base: str) -> str:
    """Returns the number of queries in which a side was slower."""
    names = {run["job"] for run in result["runs"]}
    late = sum(is_slower(cell(result["runs"], "plain", name, side, base)) for name in names)
    return f"was {MUCH} slower in {late} of {len(names)} queries"


def is_slower(of: Cell) -> bool:
    return of.ratios.get("querySeconds", 0.0) > SLOWER
