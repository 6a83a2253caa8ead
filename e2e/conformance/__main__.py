# SPDX-License-Identifier: Apache-2.0
"""`make conformance`: Spark's own suites, whose tests must have the same outcome on Lodestone as on
plain Spark."""

import argparse
import hashlib
import sys
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from . import explained, outcomes, table
from .explained import TestCase
from .install import Installed, build_agent, install
from .run import EVERY_JVM, JVM_OPTIONS, PROPERTIES, Ran, run
from .suites import MODES, RELEASES, SUITES, Suite
from .verdict import UNHEARD, WHOLE_SUITE, Verdict, judge


class DoesNotRun(Exception):
    """A suite does not run on plain Spark: its tests cannot be compared."""


def arguments():
    parser = argparse.ArgumentParser(prog="conformance", description=__doc__)
    parser.add_argument("--lines", type=words(RELEASES), default=list(RELEASES))
    parser.add_argument("--modes", type=words(MODES), default=list(MODES))
    names = [suite.name for suite in SUITES]
    parser.add_argument("--suites", type=words(names), default=names)
    parser.add_argument(
        "--quick", action="store_true", help="the suites of `make test`, mostly without plain Spark"
    )
    parser.add_argument("--again", action="store_true", help="run plain Spark again")
    parser.add_argument("--jobs", type=int, default=2, help="how many suites at a time")
    parser.add_argument("--limit", type=float, default=400, help="seconds that a test may take")
    parser.add_argument("--out", type=Path, help="a file for the report")
    return parser.parse_args()


def words(known):
    """Returns a parser of lists with commas, of known words."""

    def parse(text: str) -> list[str]:
        unknown = set(text.split(",")) - set(known)
        if unknown:
            raise argparse.ArgumentTypeError(f"{unknown} is not in {', '.join(known)}")
        return text.split(",")

    return parse


def main() -> int:
    given = arguments()
    reasons = explained.read()
    build_agent()
    chosen = [s for s in SUITES if s.name in given.suites and (s.quick or not given.quick)]
    verdicts, failures = [], []
    print(table.HEAD, flush=True)
    with ThreadPoolExecutor(given.jobs) as pool:
        under_way = [
            pool.submit(verdicts_of, suite, line, spark, given, reasons)
            for line, spark in [(line, install(RELEASES[line])) for line in given.lines]
            for suite in chosen
        ]
        for ended in as_completed(under_way):
            try:
                of_suite = ended.result()
            except DoesNotRun as failure:
                failures.append(str(failure))
                continue
            for verdict in of_suite:
                print(table.row(verdict), flush=True)
            verdicts += of_suite
    report = "\n".join([*table.summary(verdicts), *failures]) + "\n"
    print(f"\n{report}", end="")
    if given.out:
        given.out.write_text(report)
    return 0 if not failures and all(verdict.is_good for verdict in verdicts) else 1


def verdicts_of(suite: Suite, line: str, spark: Installed, given, reasons) -> list[Verdict]:
    """Returns the verdicts of one suite, in each mode. With `quick` it runs plain Spark only if a
    test did not pass: a test that passes on Lodestone is not worse than on plain Spark."""
    runs_plain = modes_of(suite, given) and not given.quick
    plain = outcomes_on_plain(suite, spark, given) if runs_plain else None
    verdicts = []
    for mode in modes_of(suite, given):
        ran = run(suite, mode, spark, given.limit, passed(plain or {}))
        if ran.aborted:
            ran.outcomes[WHOLE_SUITE] = outcomes.Outcome("aborted", ran.aborted)
        if plain is None and not needs_no_plain(suite, mode, line, ran, reasons):
            plain = outcomes_on_plain(suite, spark, given)
        verdicts.append(judge(suite, mode, line, plain or all_passed(ran), ran, reasons))
    return verdicts


def modes_of(suite: Suite, given) -> list[str]:
    allowed = suite.quick if given.quick else suite.modes
    return [mode for mode in given.modes if mode in allowed]


def passed(ran: dict[str, outcomes.Outcome]) -> list[str]:
    return [test for test, one in ran.items() if one.what == outcomes.PASSED]


def all_passed(ran: Ran) -> dict[str, outcomes.Outcome]:
    heard = [test for test, one in ran.outcomes.items() if one.what not in UNHEARD]
    return dict.fromkeys(heard, outcomes.Outcome(outcomes.PASSED))


def needs_no_plain(suite: Suite, mode: str, line: str, ran: Ran, reasons) -> bool:
    """Returns whether all tests ran, and passed or are listed as different."""
    return ran.is_complete and all(
        one.what in (outcomes.PASSED, *UNHEARD) or TestCase(suite.name, test, mode, line) in reasons
        for test, one in ran.outcomes.items()
    )


def outcomes_on_plain(suite: Suite, spark: Installed, given):
    """Returns the outcomes on plain Spark. They are kept from run to run, as long as JVMs are
    started in the same way."""
    ways = hashlib.sha256(repr((JVM_OPTIONS, EVERY_JVM, PROPERTIES)).encode()).hexdigest()[:8]
    kept = spark.folder / f"plain-{ways}" / f"{suite.name}.txt"
    if given.again or not kept.exists():
        ran = run(suite, None, spark, given.limit)
        if ran.aborted or not ran.is_complete or not ran.outcomes:
            # Later runs compare with the kept outcomes: half of a suite must not be kept.
            reason = ran.aborted or "its JVM was killed, or ended in the middle of a test"
            raise DoesNotRun(f"{suite.name} does not run on plain Spark {spark.release}: {reason}")
        kept.parent.mkdir(parents=True, exist_ok=True)
        outcomes.save(ran.outcomes, kept)
    return outcomes.load(kept)


if __name__ == "__main__":
    sys.exit(main())
