# SPDX-License-Identifier: Apache-2.0
"""`make demo`: the same jobs on plain Spark and on Lodestone, in turn, with executor processes.

Its last line is the path of a page that shows and explains the figures.
"""

import json
import os
import platform
import sys
import time
from datetime import datetime, timezone
from pathlib import Path

from harness.paths import PLUGIN_LINES
from harness.screen import say
from tpch import tables as tpch

from . import page, summary
from .comparison import compare
from .session import FOLDER, Setting
from .verdict import faults


def main() -> int:
    began = time.monotonic()
    say("== TPC-H at scale factor 1")
    tables = tpch.make()
    # Read once, so that the first job finds the files in memory like all others.
    size_mb = sum(len(file.read_bytes()) for file in tables.glob("*.parquet")) / 1e6
    say(f"   {size_mb:.0f} MB of Parquet in {tables}")
    comparisons = [compare(Setting(version, tables)) for version in PLUGIN_LINES]
    return report(result_of(comparisons), FOLDER, time.monotonic() - began)


def report(result: dict, folder: Path, seconds: float) -> int:
    """Prints the gains, and writes the page. Returns the exit code: 1 after a fault."""
    comparisons = result["comparisons"]
    for comparison in comparisons:
        say(f"\n{summary.of(comparison)}")
    found = [fault for comparison in comparisons for fault in faults(comparison)]
    say("")
    for fault in found:
        say(f"FAILED: {fault}")
    if not found:
        say("Every answer was the same on plain Spark and on Lodestone.")
    say(f"The demo took {seconds:.0f} s. This page shows the figures and explains them:")
    say(str(write(result, folder)))
    return 1 if found else 0


def result_of(comparisons: list[dict]) -> dict:
    """Returns everything that the page shows."""
    return {
        "date": datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "machine": {"cores": os.cpu_count(), "system": f"Linux {platform.release()}"},
        "comparisons": comparisons,
    }


def write(result: dict, folder: Path) -> Path:
    """Writes the figures as JSON, and the page. Returns the path of the page."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "demo.json").write_text(json.dumps(result, indent=1) + "\n")
    path = folder / "demo.html"
    path.write_text(page.of(result), encoding="utf-8")
    return path


if __name__ == "__main__":
    sys.exit(main())
