# SPDX-License-Identifier: Apache-2.0
"""`python -m sorting.plots RESULT`: draws the phases of the sorts of RESULT.json, one below the
other, as RESULT.svg."""

import json
import sys
from pathlib import Path

import matplotlib

matplotlib.use("svg")
from matplotlib import pyplot  # noqa: E402

from .page import NAMES  # noqa: E402

PHASES = {
    "sample": "0.8",
    "map": "tab:blue",
    "gap": "tab:red",
    "reduce": "tab:green",
    "validate": "0.5",
}
INCHES_PER_RUN = 0.35


def main() -> None:
    path = Path(sys.argv[1])
    result = json.loads(path.with_suffix(".json").read_text())
    runs = result["runs"]
    page, axis = pyplot.subplots(
        figsize=(9, 1.6 + INCHES_PER_RUN * len(runs)), layout="constrained"
    )
    labels = []
    for at, run in enumerate(runs):
        left = 0.0
        for phase, color in PHASES.items():
            seconds = run["seconds"][phase]
            label = phase if at == 0 else None
            axis.barh(at, seconds, left=left, color=color, label=label, height=0.7)
            left += seconds
        labels.append(f"{NAMES[run['side']]}, {run['bytes'] / 1e6:,.0f} MB")
    axis.set_yticks(range(len(runs)), labels, fontsize=8)
    axis.invert_yaxis()
    axis.set_xlabel("seconds")
    axis.legend(ncols=len(PHASES), fontsize=8, loc="upper center", bbox_to_anchor=(0.5, 1.25))
    page.suptitle(
        f"Spark {result['setting']['spark']}, {result['setting']['master']}, {result['date']}",
        fontsize=9,
    )
    page.savefig(path.with_suffix(".svg"))


if __name__ == "__main__":
    main()
