# SPDX-License-Identifier: Apache-2.0
"""The report of a run, in a form that stays the same from run to run."""

from .suites import RELEASES
from .verdict import Verdict

ROW = "{:<32} {:<7} {:<6} {:>6} {:>6} {:>9} {:>9} {:>6} {:>6} {:>8} {:>7} {:>6}"
HEAD = ROW.format(
    "suite", "mode", "Spark", "tests", "equal", "explained", "different", "failing",
    "merged", "remote", "of", "s",
)  # fmt: skip


def row(one: Verdict) -> str:
    return ROW.format(
        one.suite.name, one.mode, RELEASES[one.line], one.tests, one.equal, one.explained,
        len(one.different), len(one.fails_on_plain), one.ran.merged, one.ran.remote,
        one.ran.shuffles, round(one.ran.seconds),
    )  # fmt: skip


def findings(verdicts: list[Verdict]) -> list[str]:
    """Returns the tests and suites that fail the run, and the tests that are not counted."""
    silent = [f"{v.suite.name}, {v.mode}, Spark {v.line}" for v in verdicts if v.is_silently_plain]
    sections = [
        ("Different, and not explained", [t for v in verdicts for t in v.different]),
        ("Explained, and not different: to be taken out of explained.txt",
         [t for v in verdicts for t in v.outdated]),
        ("No shuffle went through Lodestone", silent),
        ("Not counted, since plain Spark fails here too",
         sorted({f"{v.suite.name}, Spark {v.line}: {t}" for v in verdicts
                 for t in v.fails_on_plain})),
    ]  # fmt: skip
    lines = []
    for title, entries in sections:
        if entries:
            lines += ["", f"{title}: {len(entries)}", *(f"  {entry}" for entry in entries)]
    return lines


def summary(verdicts: list[Verdict]) -> list[str]:
    """Returns the whole report in a fixed order: rows come in the order in which suites end."""
    ordered = sorted(verdicts, key=lambda v: (v.line, v.mode, v.suite.name))
    tests, equal, explained = (
        sum(getattr(v, name) for v in ordered) for name in ("tests", "equal", "explained")
    )
    different = sum(len(v.different) for v in ordered)
    last = f"{tests} tests: {equal} equal, {explained} explained, {different} different"
    return [HEAD, *map(row, ordered), *findings(ordered), "", last]
