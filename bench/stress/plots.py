# SPDX-License-Identifier: Apache-2.0
"""`python -m stress.plots REPORT`: draws REPORT.json of `lodestone-bench --json` as one page of
plots, REPORT.svg."""

import json
import sys
from pathlib import Path

import matplotlib

matplotlib.use("svg")
from matplotlib import pyplot  # noqa: E402

from .figures import FIGURES, Figure, bars  # noqa: E402

# Okabe and Ito's colours, which people with any kind of colour vision can distinguish.
COLORS = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "0.47"]
GROUP_WIDTH = 0.8
PANEL_INCHES = (9, 2.6)


def main() -> None:
    path = Path(sys.argv[1])
    report = json.loads(path.with_suffix(".json").read_text())
    summary, machine = report["summary"], report["machine"]
    servers = list(dict.fromkeys(line["server"] for line in summary))
    panels = [figure for figure in FIGURES if bars(figure, summary)]
    width, height = PANEL_INCHES
    page, axes = pyplot.subplots(
        len(panels), squeeze=False, figsize=(width, height * len(panels)), layout="constrained"
    )
    for axis, figure in zip(axes[:, 0], panels, strict=True):
        panel(axis, figure, summary, servers)
    axes[0, 0].legend(fontsize=8)
    page.suptitle(
        f"lodestone-bench {report['version']}, {machine['cores']} cores of {machine['processor']}, "
        f"{report['connections']} connections",
        fontsize=9,
    )
    page.savefig(path.with_suffix(".svg"))


def panel(axis, figure: Figure, summary: list[dict], servers: list[str]) -> None:
    groups = bars(figure, summary)
    width = GROUP_WIDTH / len(servers)
    for number, server in enumerate(servers):
        left = (number - (len(servers) - 1) / 2) * width
        heights = [(at, of[server]) for at, of in enumerate(groups.values()) if server in of]
        drawn = axis.bar(
            [at + left for at, _ in heights], [height for _, height in heights], width * 0.92,
            color=COLORS[number % len(COLORS)], label=server,
        )  # fmt: skip
        # The number shows bars that are much smaller than others.
        axis.bar_label(drawn, fmt="{:.3g}", fontsize=7)
    axis.set_xticks(range(len(groups)), list(groups), fontsize=8)
    axis.set_title(f"{figure.title}, {figure.unit}", fontsize=9)
    axis.tick_params(axis="y", labelsize=8)
    axis.margins(y=0.15)


if __name__ == "__main__":
    main()
