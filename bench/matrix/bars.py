# SPDX-License-Identifier: Apache-2.0
"""What Lodestone has to keep, and whether it did in these runs."""

from collections.abc import Callable
from dataclasses import dataclass

from .summary import Cell, cell


@dataclass(frozen=True)
class Bar:
    """Of one side at one job on the plain disk."""

    side: str
    job: str
    what: str
    limit: float
    value: Callable[[Cell], float | None]
    base: str = "plain"  # the side that ratios are to


def ratio(figure: str) -> Callable[[Cell], float | None]:
    return lambda of: of.ratios.get(figure)


def middle(figure: str) -> Callable[[Cell], float | None]:
    return lambda of: of.figures[figure].median if figure in of.figures else None


ALL = [
    Bar("lodestone", "tiny", "map stage, x plain", 1.1, ratio("mapSeconds")),
    Bar("lodestone", "tiny", "reduce stage, x plain", 0.4, ratio("reduceSeconds")),
    Bar("lodestone", "tiny", "daemon, CPU s per GB in and out", 5.0, middle("serviceCpuPerGb")),
    Bar("lodestone", "sort", "daemon, CPU s", 3.0, middle("servicesCpuSeconds")),
    Bar("lodestone", "sort", "wall, x plain", 1.1, ratio("seconds")),
    Bar("auto", "sort", "wall, x plain", 1.02, ratio("seconds")),
    Bar("auto", "sql", "wall, x plain", 1.02, ratio("seconds")),
    Bar("remote", "sort", "wall, x plain", 0.95, ratio("seconds")),
    Bar("remote", "sort", "CPU, x plain", 0.88, ratio("cpuSeconds")),
    Bar("remote", "tiny", "wall, x plain", 0.65, ratio("seconds")),
    Bar("remote", "tiny", "CPU, x plain", 0.60, ratio("cpuSeconds")),
    Bar("remote", "groups", "wall, x plain", 0.80, ratio("seconds")),
    Bar("remote", "groups", "CPU, x plain", 0.72, ratio("cpuSeconds")),
    Bar("copies", "sort", "wall, x one copy on as many services", 1.25, ratio("seconds"), "two"),
]


def judged(result: dict) -> list[str]:
    """A line for each bar that these runs have figures for. Sizes other than the bars' are not judged."""
    lines = []
    for bar in ALL:
        if not result["fullSize"].get(bar.job):
            continue
        value = bar.value(cell(result["runs"], "plain", bar.job, bar.side, bar.base))
        if value is not None:
            verdict = "kept" if value <= bar.limit else "MISSED"
            what = f"{bar.side}, {bar.job}: {bar.what}"
            lines.append(f"{verdict:<6}  {what:<56} {value:6.2f}  (at most {bar.limit:g})")
    return lines
