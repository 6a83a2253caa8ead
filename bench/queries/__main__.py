# SPDX-License-Identifier: Apache-2.0
"""`make tpcds`: every query of TPC-DS on plain Spark and on Lodestone, in turn, query by query. It
compares answers row by row."""

import argparse
import json
import sys
import time
from pathlib import Path

from harness.screen import progress, say
from matrix import disk, figures, keeping, result, sides
from matrix.command_line import CLUSTER, add_cluster, alone, changed, command, listed, setting_of
from matrix.sessions import TROUBLES, Sessions, order
from tpcds import answer, query, tables

from . import page, summary

DISK = "plain"
JOB = "tpcds"
SIDES = [*sides.OPPONENTS, "auto", "lodestone", "remote"]
# Loads and compiles the classes of scans, joins, aggregates, windows and unions.
WARM_UP = {"queries": "q3+q36+q98+q5"}
# The page, every run, and answers that differ.
PAGE = sides.CACHE / "tpcds.txt"
RUNS = sides.CACHE / "tpcds.json"
DIFFERENT = sides.CACHE / "tpcds-different"


def main() -> int:
    asked = arguments()
    with alone():
        return measured(asked)


def measured(asked: argparse.Namespace) -> int:
    setting = setting_of(asked, tables.make(asked.scale))
    suite_result = result.begun(setting, command("queries"), asked.rounds, asked.changed)
    suite_result |= {"scale": asked.scale, "sides": asked.sides, "notes": asked.note}
    if asked.resume and RUNS.exists():
        suite_result |= resumed(suite_result, json.loads(RUNS.read_text()))
    keeping.warn(suite_result)
    suite = Suite(suite_result, asked.out)
    throttle = disk.Throttle(sides.CACHE)
    try:
        with Sessions(setting, throttle, {JOB: WARM_UP}, asked.timeout, DISK) as sessions:
            for number in range(1, asked.rounds + 1):
                for name in asked.queries:
                    if not suite.has(number, name):
                        suite.once(sessions, number, name)
    finally:
        throttle.close()
    say("\n" + page.of(suite_result))
    keep(suite_result)
    return 1 if any(run["failure"] for run in suite_result["runs"]) else 0


def keep(suite_result: dict, folder: Path = keeping.RESULTS) -> None:
    """Keeps the page and the sums, if every query succeeded on all sides at the usual scale."""
    succeeded = {run["job"] for run in suite_result["runs"]} - {
        run["job"] for run in suite_result["runs"] if run["failure"]
    }
    is_whole = set(query.names()) == succeeded
    if not is_whole or not set(SIDES) <= set(suite_result["sides"]):
        say("== Not kept in bench/results: not all queries succeeded on all of the usual sides.")
        return
    keeper = keeping.Keeper(suite_result, folder)
    if not suite_result["changed"]:
        keeper.text("tpcds", page.of(suite_result), summary.ratios_of(suite_result))
    keeper.history(summary.history_of(suite_result))


def resumed(suite_result: dict, before: dict) -> dict:
    """Returns the runs of before, and the names under which they were made. Only runs of the same
    kind may be on one page."""
    for same in ("setting", "scale", "sides", "machine", "changed"):
        if suite_result[same] != before.get(same):
            raise SystemExit(
                f"{RUNS} has another {same}: {before.get(same)}, not {suite_result[same]}"
            )
    both = {key: [before[key], suite_result[key]] for key in ("date", "commit", "command")}
    return {
        **{key: "; ".join(dict.fromkeys(values)) for key, values in both.items()},
        "notes": list(dict.fromkeys([*before["notes"], *suite_result["notes"]])),
        "runs": before["runs"],
    }


class Suite:
    """Makes runs, and writes down the results after each query."""

    def __init__(self, suite_result: dict, path: Path):
        self._result = suite_result
        self._path = path
        # For each query, the first answer of the first side that had one.
        self._expected: dict[str, list] = {}
        self._turns = 0

    def has(self, number: int, name: str) -> bool:
        """Returns whether a query was run before, if this is resumed."""
        return any((r["round"], r["job"]) == (number, name) for r in self._result["runs"])

    def once(self, sessions: Sessions, number: int, name: str) -> None:
        """Runs one query, once on each side."""
        progress(f"   round {number}, {name}:")
        outcomes, answers = {}, {}
        self._turns += 1
        for side in order(self._result["sides"], self._turns):
            outcomes[side], answers[side] = self._run(sessions, side, name)
            seconds = outcomes[side]["figures"].get("querySeconds")
            progress(f"  {side} FAILED" if seconds is None else f"  {side} {seconds:.1f} s")
        for side in self._result["sides"]:
            run = {"round": number, "disk": DISK, "job": name, "side": side, **outcomes[side]}
            run["failure"] = run["failure"] or self.difference(name, side, answers[side])
            self._result["runs"].append(run)
            if run["failure"]:
                progress(f"\n   {side} FAILED: {run['failure']}")
        say("")
        result.write(RUNS, self._result)
        self._path.write_text(page.of(self._result))

    def _run(self, sessions: Sessions, side: str, name: str) -> tuple[dict, list]:
        """Runs a query once. A failure is a result too."""
        began = time.monotonic()
        try:
            run_result = sessions.run(side, JOB, {"queries": name})
        except TROUBLES as failed:
            return {"failure": str(failed), "figures": {}, "report": {}, "rows": 0}, []
        rows = run_result["answer"][name]
        of_run = figures.of_run(run_result) | {"querySeconds": run_result["details"][name]}
        of_run["turnSeconds"] = round(time.monotonic() - began, 3)
        run = {"failure": "", "figures": of_run, "report": run_result["report"], "rows": len(rows)}
        return run | {"clean": run_result["clean"]}, rows

    def difference(self, name: str, side: str, rows: list) -> str:
        expected = self._expected.setdefault(name, rows)
        found = answer.difference(expected, rows, query.is_exact(name))
        if found:
            DIFFERENT.mkdir(exist_ok=True)
            both = {"expected": expected, side: rows}
            (DIFFERENT / f"{name}-{side}.json").write_text(json.dumps(both, indent=1))
        return f"WRONG ANSWER: {found}" if found else ""


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="queries", description=__doc__)
    names = [side.name for side in sides.ALL]
    known = query.names()
    parser.add_argument("--sides", type=listed(names), default=SIDES, help=f"some of {names}")
    parser.add_argument("--queries", type=listed(known), default=known, help="q1 to q99")
    parser.add_argument("--rounds", type=int, default=1)
    resume_help = (
        f"continue with the runs in {RUNS}, if there are any: their queries are not run again"
    )
    parser.add_argument("--resume", action="store_true", help=resume_help)
    parser.add_argument("--scale", default="1", help="the scale factor: 1 is 400 MB of Parquet")
    add_cluster(parser)
    parser.add_argument("--timeout", type=float, default=900, help="seconds for one run")
    parser.add_argument("--out", type=Path, default=PAGE, help=f"the page, by default {PAGE}")
    note_help = "a sentence for the page, such as on other load of the machine; may be repeated"
    parser.add_argument("--note", action="append", default=[], help=note_help)
    asked = parser.parse_args()
    asked.changed = changed(asked, parser, [*CLUSTER, "scale"])
    return asked


if __name__ == "__main__":
    sys.exit(main())
