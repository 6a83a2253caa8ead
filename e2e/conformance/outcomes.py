# SPDX-License-Identifier: Apache-2.0
"""The outcome of each test of a suite, as the agent's reporter writes it down."""

from dataclasses import dataclass
from pathlib import Path

PASSED = "passed"
# Outcomes that the JVM cannot write down: it was killed, or ended, in the middle of a test.
HUNG = "hung"
CRASHED = "crashed"
MISSING = "not run"


@dataclass(frozen=True)
class Outcome:
    what: str
    message: str = ""
    seconds: float = 0.0


@dataclass(frozen=True)
class Events:
    """The events that one JVM wrote down."""

    ended: dict[str, Outcome]
    # The test that has begun and not ended, and when that was (seconds of the epoch).
    running: str | None
    since: float
    # The failure of the suite as a whole.
    aborted: str | None
    is_complete: bool


def events_of(file: Path) -> Events:
    ended, running, since, aborted, is_complete = {}, None, 0.0, None, False
    for line in _whole_lines(file):
        millis, what, test, message = line.split("\t")
        at = int(millis) / 1000
        if what == "started":
            running, since = test, at
        elif what == "aborted":
            aborted = message
        elif what == "completed":
            is_complete = True
        else:
            began = since if running == test else at
            ended[test] = Outcome(what, message, at - began)
            running, since = None, at
    return Events(ended, running, since, aborted, is_complete)


def _whole_lines(file: Path) -> list[str]:
    """Returns all lines except one that is still being written."""
    text = file.read_text(errors="replace") if file.exists() else ""
    return text[: text.rfind("\n") + 1].splitlines() if text else []


def save(outcomes: dict[str, Outcome], file: Path) -> None:
    lines = [f"{o.what}\t{o.seconds:.1f}\t{test}\t{o.message}\n" for test, o in outcomes.items()]
    file.write_text("".join(lines))


def load(file: Path) -> dict[str, Outcome]:
    outcomes = {}
    for line in file.read_text().splitlines():
        what, seconds, test, message = line.split("\t")
        outcomes[test] = Outcome(what, message, float(seconds))
    return outcomes
