# SPDX-License-Identifier: Apache-2.0
"""`python -m matrix.plots RESULT`: draws RESULT.json as one page of plots, RESULT.svg. A bar is a
median, its whisker the spread."""

import json
import sys
from pathlib import Path

import matplotlib

matplotlib.use("svg")
from matplotlib import pyplot  # noqa: E402

from .summary import cell, place, sections, sides_of  # noqa: E402
from .workloads import BY_NAME  # noqa: E402

PANELS = [
    ("seconds", "wall, s"),
    ("mapSeconds", "map stages, s"),
    ("reduceSeconds", "reduce stages, s"),
    ("cpuSeconds", "CPU, s"),
]
COLORS = {
    "plain": "0.6",
    "tuned": "0.4",
    "ess": "tab:olive",
    "push": "tab:orange",
    "lodestone": "tab:blue",
}
OTHER_COLOR = "tab:cyan"
PANEL_INCHES = (3.2, 2.6)


def main() -> None:
    path = Path(sys.argv[1])
    result = json.loads(path.with_suffix(".json").read_text())
    rows = sections(result["runs"])
    width, height = PANEL_INCHES
    size = (width * len(PANELS), height * len(rows) + 0.6)
    page, axes = pyplot.subplots(
        len(rows), len(PANELS), squeeze=False, figsize=size, layout="constrained"
    )
    for line, (disk, job) in zip(axes, rows, strict=True):
        for axis, (figure, title) in zip(line, PANELS, strict=True):
            panel(axis, result["runs"], disk, job, figure)
            axis.set_title(title, fontsize=9)
        line[0].set_ylabel(f"{BY_NAME[job].title}\n{place(disk)}", fontsize=9)
    machine = result["machine"]
    page.suptitle(
        f"Spark {result['setting']['spark']}, {result['setting']['master']}, {machine['cpus']} x "
        f"{machine['cpu']}, {result['rounds']} rounds, {result['date']}, commit {result['commit']}",
        fontsize=9,
    )
    page.savefig(path.with_suffix(".svg"))


def panel(axis, runs: list[dict], disk: str, job: str, figure: str) -> None:
    for at, side in enumerate(sides_of(runs)):
        of = cell(runs, disk, job, side)
        spread = of.figures.get(figure)
        if spread is None:
            axis.text(at, 0, "failed" if of.failures else "-", ha="center", fontsize=8)
            continue
        whisker = [[spread.median - spread.least], [spread.most - spread.median]]
        color = COLORS.get(side, OTHER_COLOR)
        axis.bar(at, spread.median, yerr=whisker, color=color, capsize=3, width=0.7)
        if side != of.base and figure in of.ratios:
            axis.text(
                at, spread.most, f"x {of.ratios[figure]:.2f}", ha="center", va="bottom", fontsize=7
            )
    axis.set_xticks(range(len(sides_of(runs))), sides_of(runs), fontsize=8)
    axis.tick_params(axis="y", labelsize=8)
    axis.margins(y=0.15)


if __name__ == "__main__":
    main()
