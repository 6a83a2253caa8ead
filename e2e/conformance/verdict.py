# SPDX-License-Identifier: Apache-2.0
"""The outcomes of a suite on Lodestone, compared with those on plain Spark."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from .explained import TestCase
from .outcomes import MISSING, PASSED, Outcome
from .run import Ran
from .suites import SERVICE, Suite

# A test that did not run on plain Spark proves nothing, whatever its outcome.
UNHEARD = ("ignored", "canceled", "pending")
WHOLE_SUITE = "(the suite)"


@dataclass
class Verdict:
    """One row of the table, and the remarks on it."""

    suite: Suite
    mode: str
    line: str
    ran: Ran
    tests: int = 0
    equal: int = 0
    explained: int = 0
    different: list[str] = field(default_factory=list)
    # Tests that are explained and do not differ.
    outdated: list[str] = field(default_factory=list)
    fails_on_plain: list[str] = field(default_factory=list)

    @property
    def is_silently_plain(self) -> bool:
        ran = self.ran
        if self.mode == SERVICE:
            is_plain = ran.served == 0
        elif self.mode == "remote":
            is_plain = ran.remote == 0
        else:
            # If there are shuffles, and each has one map, the service has nothing to merge.
            is_plain = ran.merged == 0 and (ran.shuffles == 0 or ran.single < ran.shuffles)
        return self.suite.shuffles and is_plain

    @property
    def is_good(self) -> bool:
        return not (self.different or self.outdated or self.is_silently_plain)


def judge(
    suite: Suite,
    mode: str,
    line: str,
    plain: Mapping[str, Outcome],
    ran: Ran,
    explained: Mapping[TestCase, str],
) -> Verdict:
    verdict = Verdict(suite, mode, line, ran)
    ours = {test: one for test, one in ran.outcomes.items() if one.what not in UNHEARD}
    theirs = {test: one for test, one in plain.items() if one.what not in UNHEARD}
    for test in theirs | ours:
        before, after = theirs.get(test), ours.get(test, Outcome(MISSING))
        if before is not None and before.what != PASSED:
            verdict.fails_on_plain.append(test)
            continue
        verdict.tests += 1
        is_equal = before is not None and after.what == PASSED
        _count(verdict, TestCase(suite.name, test, mode, line), after, is_equal, explained)
    for test_case in explained:
        if (test_case.suite, test_case.mode, test_case.line) == (suite.name, mode, line):
            if test_case.test not in theirs:
                verdict.outdated.append(f"{test_case} (there is no such test)")
    return verdict


def _count(
    verdict: Verdict,
    test_case: TestCase,
    after: Outcome,
    is_equal: bool,
    explained: Mapping[TestCase, str],
) -> None:
    if is_equal:
        verdict.equal += 1
        if test_case in explained:
            verdict.outdated.append(str(test_case))
    elif test_case in explained:
        verdict.explained += 1
    else:
        verdict.different.append(f"{test_case}\n      {after.what}: {after.message[:300]}")
