# SPDX-License-Identifier: Apache-2.0
"""`make demo`: the same jobs on plain Spark and on Lodestone, side by side, with real executor processes."""

import sys
import time

from harness.paths import PLUGIN_LINES

from . import table, tpch
from .session import JOBS, Session
from .verdict import faults


def main() -> int:
    began = time.monotonic()
    say("== TPC-H at scale factor 1")
    tables = tpch.make()
    size_mb = sum(file.stat().st_size for file in tables.glob("*.parquet")) / 1e6
    say(f"   {size_mb:.0f} MB of Parquet in {tables}")
    found, pages = [], []
    for version in PLUGIN_LINES:
        say(f"\n== Spark {version}: {', '.join(name.upper() for name in JOBS)}")
        plain, lodestone = (Session(version, ours, tables).run(progress) for ours in (False, True))
        found += faults(version, plain, lodestone)
        pages.append(table.page(version, plain, lodestone))
    say("\n" + "\n\n".join(pages))
    say(f"\nThe whole demo took {time.monotonic() - began:.0f} s.")
    for fault in found:
        say(f"FAILED: {fault}")
    if not found:
        say("Every answer was the same on plain Spark and on Lodestone.")
    return 1 if found else 0


def say(text: str) -> None:
    print(text, flush=True)


def progress(text: str, end: str = "\n") -> None:
    """Grows the line of a session while it works."""
    print(text, end=end, flush=True)


if __name__ == "__main__":
    sys.exit(main())
