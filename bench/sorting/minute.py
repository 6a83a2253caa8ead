# SPDX-License-Identifier: Apache-2.0
"""MinuteSort: the most records that are sorted and judged within a minute, including the start of
Spark."""

from harness.screen import say

from .run import MB, RECORD_BYTES, Sort

BUDGET_S = 60
FIRST_MB = 500
TRIES = 5
# Aim a little below the limit, and accept a result this near to it.
AIM_S = 57
NEAR_S = 54
# A small sort is mostly Spark's start: limit its extrapolation.
MAX_GROWTH = 6.0


def largest(sort: Sort, side: str, room_mb: int) -> list[dict]:
    """Returns all tries; `fits` marks those that were in time."""
    runs, mb = [], min(FIRST_MB, room_mb)
    for _ in range(TRIES):
        sort.generate(mb * MB // RECORD_BYTES)
        run = sort.once(side)
        whole = run["seconds"]["whole"]
        runs.append(run | {"fits": whole <= BUDGET_S})
        say(f"   {mb:,} MB sorted and judged in {whole:.1f} s")
        if NEAR_S <= whole <= BUDGET_S or mb == room_mb:
            break
        mb = min(room_mb, next_mb(runs))
    return runs


def next_mb(runs: list[dict]) -> int:
    """Extrapolates the last two tries by a straight line: seconds to start, and seconds per MB."""
    points = [(run["bytes"] / MB, run["seconds"]["whole"]) for run in runs[-2:]]
    (mb, seconds) = points[-1]
    start = 0.0
    if len(points) == 2 and points[0][0] != mb:
        slope = (seconds - points[0][1]) / (mb - points[0][0])
        start = max(0.0, seconds - slope * mb)
    growth = (AIM_S - start) / max(0.1, seconds - start)
    return int(mb * min(growth, MAX_GROWTH))
