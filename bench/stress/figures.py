# SPDX-License-Identifier: Apache-2.0
"""The figures 8 and 9 of Magnet's paper, and three more, from the JSON of `lodestone-bench`."""

from collections.abc import Callable
from dataclasses import dataclass

MIB = 1 << 20
PHASES = ("push", "fetch_merged", "fetch_originals")


@dataclass(frozen=True)
class Figure:
    """One panel: the phases in it, and the value of a summary line that a bar shows."""

    title: str
    unit: str
    phases: tuple[str, ...]
    value: Callable[[dict], float | None]


def peak_mib(line: dict) -> float | None:
    peak = line["peak_rss_bytes"]
    return None if peak is None else peak / MIB


FIGURES = [
    Figure("pushing all blocks", "s", PHASES[:1], lambda line: line["seconds"]["median"]),
    Figure("fetching all blocks", "s", PHASES[1:], lambda line: line["seconds"]["median"]),
    Figure("throughput", "MB/s", PHASES, lambda line: line["megabytes_a_second"]["median"]),
    Figure("CPU of the server", "s/GB", PHASES, lambda line: line["cpu_seconds_per_gb"]),
    Figure("peak memory of the server", "MiB", PHASES, peak_mib),
]


def bars(figure: Figure, summary: list[dict]) -> dict[str, dict[str, float]]:
    """Returns heights of bars by group and server. A group is a block size, with its phase if a
    panel has several."""
    groups: dict[str, dict[str, float]] = {}
    for line in summary:
        height = figure.value(line)
        if line["phase"] not in figure.phases or height is None:
            continue
        phase = f"\n{line['phase'].replace('_', ' ')}" if len(figure.phases) > 1 else ""
        groups.setdefault(line["block"] + phase, {})[line["server"]] = height
    return groups
