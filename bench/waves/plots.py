# SPDX-License-Identifier: Apache-2.0
"""`python -m waves.plots RESULT`: draws total and reduce time over the number of waves, a row for
each disk, as RESULT.svg."""

import json
import sys
from pathlib import Path

import matplotlib

matplotlib.use("svg")
from matplotlib import pyplot  # noqa: E402

PANELS = [("seconds", "total, s"), ("reduceSeconds", "reduce stage, s")]
COLORS = {"plain": "0.6", "tuned": "0.4", "remote": "tab:blue"}
WIDTH = 0.27
HEIGHT_INCHES = 3.2


def main() -> None:
    path = Path(sys.argv[1])
    result = json.loads(path.with_suffix(".json").read_text())
    disks = list(dict.fromkeys(row["disk"] for row in result["rows"]))
    size = (8, HEIGHT_INCHES * len(disks))
    page, axes = pyplot.subplots(
        len(disks), len(PANELS), squeeze=False, figsize=size, layout="constrained"
    )
    for line, disk in zip(axes, disks, strict=True):
        rows = [row for row in result["rows"] if row["disk"] == disk]
        for axis, (name, title) in zip(line, PANELS, strict=True):
            panel(axis, rows, name)
            axis.set_title(f"{title}, {disk} disk", fontsize=9)
            axis.set_xlabel("waves of map tasks", fontsize=9)
    axes[0][0].legend(fontsize=8)
    page.suptitle(
        f"Spark {result['setting']['spark']}, {result['rounds']} rounds, {result['date']}",
        fontsize=9,
    )
    page.savefig(path.with_suffix(".svg"))


def panel(axis, rows: list[dict], name: str) -> None:
    for shift, (side, color) in enumerate(COLORS.items()):
        for at, row in enumerate(rows):
            of = row["sides"][side]
            if name not in of:
                continue
            median, least, most = of[name]
            x = at + (shift - 1) * WIDTH
            whisker = [[median - least], [most - median]]
            label = side if at == 0 else None
            axis.bar(x, median, WIDTH, yerr=whisker, color=color, capsize=3, label=label)
            if name in of["ratios"] and side != row["base"]:
                ratio = of["ratios"][name]
                axis.text(x, most, f"x {ratio:.2f}", ha="center", va="bottom", fontsize=7)
    axis.set_xticks(range(len(rows)), [row["waves"] for row in rows], fontsize=8)
    axis.margins(y=0.15)


if __name__ == "__main__":
    main()
