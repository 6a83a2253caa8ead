# SPDX-License-Identifier: Apache-2.0
"""The limits that Lodestone has to keep, and the verdicts on them."""

from collections.abc import Callable
from dataclasses import dataclass

from .sides import COMET
from .summary import Cell, cell, opponent, sections, title_of
from .workloads import BY_NAME

# The limit of auto's wall seconds, relative to the best mode that a user could have selected: at
# its start auto does not know everything, and this may cost so much.
AUTO_LIMIT = 1.02
# A change that is not about speed may take this many times the CPU seconds of the other checkout.
BEFORE_LIMIT = 1.02


@dataclass(frozen=True)
class Bar:
    """A limit for one side at one job on one disk. `what` may name the base of ratios: {base}."""

    side: str
    job: str
    what: str
    limit: float
    value: Callable[[Cell], float | None]
    base: str | None = None  # the side that ratios are to; by default the better of plain and tuned
    disk: str = "plain"
    is_below: bool = False  # the limit itself is too much


def ratio(figure: str) -> Callable[[Cell], float | None]:
    return lambda of: of.ratios.get(figure)


def middle(figure: str) -> Callable[[Cell], float | None]:
    return lambda of: of.figures[figure].median if figure in of.figures else None


WALL = ratio("seconds")
CPU = ratio("cpuSeconds")
DAEMON = ratio("serviceCpuPerGb")
PEAK = ratio("executorsPeakMb")
ALL = [
    Bar("lodestone", "tiny", "map stage, x {base}", 1.1, ratio("mapSeconds")),
    Bar("lodestone", "tiny", "reduce stage, x {base}", 0.4, ratio("reduceSeconds")),
    Bar("lodestone", "tiny", "daemon, CPU s per GB in and out", 5.0, middle("serviceCpuPerGb")),
    Bar("lodestone", "sort", "daemon, CPU s", 3.0, middle("servicesCpuSeconds")),
    Bar("lodestone", "sort", "wall, x {base}", 1.1, WALL),
    *(Bar("auto", job, "wall, x {base}", AUTO_LIMIT, WALL) for job in ("sort", "sql", "tpch")),
    Bar("auto", "tiny", "wall, x {base}", 1.0, WALL, is_below=True),
    *(
        Bar("auto", job, "wall, x {base}", AUTO_LIMIT, WALL, disk="throttled")
        for job in ("sort", "tiny", "sql", "tpch")
    ),
    *(
        Bar(side, job, "CPU, x the other checkout", BEFORE_LIMIT, CPU, base)
        for side, base in (("auto", "before"), ("lodestone", "merge-before"))
        for job in ("sort", "tiny", "sql", "tpch")
    ),
    # Set against plain Spark, before there was a side `tuned`.
    Bar("remote", "sort", "wall, x {base}", 0.95, WALL, "plain"),
    Bar("remote", "sort", "CPU, x {base}", 0.88, CPU, "plain"),
    Bar("remote", "tiny", "wall, x {base}", 0.65, WALL, "plain"),
    Bar("remote", "tiny", "CPU, x {base}", 0.60, CPU, "plain"),
    Bar("remote", "groups", "wall, x {base}", 0.80, WALL, "plain"),
    Bar("remote", "groups", "CPU, x {base}", 0.72, CPU, "plain"),
    # One key of Spark gives as much in a sort of large blocks: mode remote must not lose by it.
    *(
        Bar("remote", job, f"{what}, x {{base}}", 1.05, value, "tuned")
        for job in ("sort", "sql", "groups")
        for what, value in (("wall", WALL), ("CPU", CPU))
    ),
    *(
        Bar("remote", job, "daemon, CPU s per GB in and out, x lodestone", 1.0, DAEMON, "lodestone")
        for job in ("sort", "tiny")
    ),
    # An executor fills requests of 64 MiB (`spark.lodestone.push.memory`), and the heaps of JVMs
    # differ by some percent.
    *(
        Bar("remote", job, "executors, peak memory, x {base}", 1.1, PEAK)
        for job in ("sort", "tiny", "groups")
    ),
    Bar("remote", "sort", "wall, x {base}", 0.33, WALL, disk="throttled"),
    Bar("auto", "tpch", "wall, x {base}", 0.75, WALL, disk="network"),
    Bar("remote", "tpch", "wall, x {base}", 0.70, WALL, disk="network"),
    *(
        Bar(side, "tpch", f"{what}, x Comet's own shuffle", limit, value, COMET)
        for side, limit in (("comet-merge", 1.02), ("comet-remote", 1.05))
        for what, value in (("wall", WALL), ("CPU", CPU))
    ),
    Bar("copies", "sort", "wall, x one replica on as many services", 1.25, WALL, "two"),
]


def judged(result: dict) -> list[str]:
    """Returns a line for each bar that these runs have figures for. Bars are for warm JVMs and full
    sizes."""
    runs, lines = result["runs"], []
    if "cold" in result["changed"]:
        return lines
    for bar in ALL:
        of = cell(runs, bar.disk, bar.job, bar.side, bar.base)
        value = bar.value(of)
        if value is not None and is_full_size(result, bar.disk, bar.job):
            what = titled(bar.side, bar.disk, bar.job, bar.what.format(base=of.base))
            lines.append(verdict(what, value, bar.limit, bar.is_below))
    for disk, job in sections(runs):
        if is_full_size(result, disk, job):
            lines += beside_fixed(runs, disk, job)
    return lines


def is_full_size(result: dict, disk: str, job: str) -> bool:
    """Returns whether a job had its default sizes, without `--set`: bars are for those only."""
    return result["sizes"].get(f"{disk} {job}") == dict(BY_NAME[job].sizes(disk))


def beside_fixed(runs: list[dict], disk: str, job: str) -> list[str]:
    """Compares auto with the best mode that a user could have selected, if all were run; and with
    remote.

    Remote gets no verdict, because auto keeps originals (docs/decisions/0011).
    """
    ratios = {
        side: cell(runs, disk, job, "auto", side).ratios.get("seconds")
        for side in (opponent(runs, disk, job), "lodestone", "remote")
    }
    remote, lines = ratios.pop("remote"), []
    if None not in ratios.values():
        best = max(ratios, key=ratios.get)
        what = titled("auto", disk, job, f"wall, x the best fixed mode ({best})")
        lines.append(verdict(what, ratios[best], AUTO_LIMIT))
    if remote is not None:
        lines.append(line("info", titled("auto", disk, job, "wall, x remote"), remote))
    return lines


def titled(side: str, disk: str, job: str, what: str) -> str:
    return f"{side}, {title_of(disk, job)}: {what}"


def verdict(what: str, value: float, limit: float, is_below: bool = False) -> str:
    kept = value < limit if is_below else value <= limit
    words = f"{'below' if is_below else 'at most'} {limit:g}"
    return f"{line('kept' if kept else 'MISSED', what, value)}  ({words})"


def line(said: str, what: str, value: float) -> str:
    return f"{said:<6}  {what:<64} {value:6.2f}"
