# SPDX-License-Identifier: Apache-2.0
"""`make demo`: the same jobs on plain Spark and on Lodestone, in turn, with real executor processes."""

import sys
import time
from contextlib import ExitStack

from harness.paths import PLUGIN_LINES
from harness.screen import progress, say
from tpch import tables as tpch

from . import table
from .session import JOBS, Done, Session
from .verdict import difference, faults


def main() -> int:
    began = time.monotonic()
    say("== TPC-H at scale factor 1")
    tables = tpch.make()
    size_mb = sum(file.stat().st_size for file in tables.glob("*.parquet")) / 1e6
    say(f"   {size_mb:.0f} MB of Parquet in {tables}")
    found, pages = [], []
    with ExitStack() as ending:
        for version in PLUGIN_LINES:
            plain, lodestone = side_by_side(version, tables, ending)
            found += faults(version, plain, lodestone)
            pages.append(table.page(version, plain, lodestone))
    say("\n" + "\n\n".join(pages))
    say(f"\nThe whole demo took {time.monotonic() - began:.0f} s.")
    for fault in found:
        say(f"FAILED: {fault}")
    if not found:
        say("Every answer was the same on plain Spark and on Lodestone.")
    return 1 if found else 0


def side_by_side(
    version: str, tables, ending: ExitStack
) -> tuple[dict[str, Done], dict[str, Done]]:
    """Each job on one side and then on the other, while both applications are up: what slows the machine for a while slows both.

    They put themselves away in the background; `ending` waits for that, or kills them when the demo fails.
    """
    say(f"\n== Spark {version}")
    progress("   starting two applications, each with an executor of two cores")
    began = time.monotonic()
    plain: dict[str, Done] = {}
    lodestone: dict[str, Done] = {}
    sessions = [ending.enter_context(Session(version, ours, tables)) for ours in (False, True)]
    for session in sessions:
        session.await_ready()
    say(f": {time.monotonic() - began:.0f} s")
    for job in JOBS:
        progress(f"   {job.upper():<5}")
        for session, done in zip(sessions, (plain, lodestone), strict=True):
            done[job] = session.run(job)
            progress(f"  {session.name} {done[job].seconds:4.1f} s")
        differs = difference(plain[job].answer, lodestone[job].answer)
        say(f"  {differs or 'same answer'}")
    for session in sessions:
        session.begin_stop()
    return plain, lodestone


if __name__ == "__main__":
    sys.exit(main())
