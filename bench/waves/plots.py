# SPDX-License-Identifier: Apache-2.0
"""`python -m waves.plots RESULT`: total and reduce time over the number of waves, as RESULT.svg."""

import json
import sys
from pathlib import Path

import matplotlib

matplotlib.use("svg")
from matplotlib import pyplot  # noqa: E402

PANELS = [("seconds", "total, s"), ("reduceSeconds", "reduce stage, s")]
COLORS = {"plain": "0.6", "remote": "tab:blue"}
WIDTH = 0.38


def main() -> None:
    path = Path(sys.argv[1])
    told = json.loads(path.with_suffix(".json").read_text())
    page, axes = pyplot.subplots(1, len(PANELS), figsize=(8, 3.2), layout="constrained")
    for axis, (name, title) in zip(axes, PANELS, strict=True):
        panel(axis, told["waves"], name)
        axis.set_title(title, fontsize=9)
        axis.set_xlabel("waves of map tasks", fontsize=9)
    axes[0].legend(fontsize=8)
    page.suptitle(
        f"{told['bytes'] / 1e6:,.0f} MB, {told['disk']} disk, Spark {told['setting']['spark']}, "
        f"{told['rounds']} rounds, {told['date']}",
        fontsize=9,
    )
    page.savefig(path.with_suffix(".svg"))


def panel(axis, rows: list[dict], name: str) -> None:
    for shift, (side, color) in enumerate(COLORS.items()):
        for at, row in enumerate(rows):
            median, least, most = row[side][name]
            place = at + (shift - 0.5) * WIDTH
            whisker = [[median - least], [most - median]]
            label = side if at == 0 else None
            axis.bar(place, median, WIDTH, yerr=whisker, color=color, capsize=3, label=label)
            if name in row[side]["ratios"] and side != "plain":
                ratio = row[side]["ratios"][name]
                axis.text(place, most, f"x {ratio:.2f}", ha="center", va="bottom", fontsize=7)
    axis.set_xticks(range(len(rows)), [row["waves"] for row in rows], fontsize=8)
    axis.margins(y=0.15)


if __name__ == "__main__":
    main()
