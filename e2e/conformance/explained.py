# SPDX-License-Identifier: Apache-2.0
"""Tests that may have another outcome than on plain Spark, each with the reason:
`explained.txt`."""

from dataclasses import dataclass
from itertools import product
from pathlib import Path

from .suites import MODES, RELEASES, SUITES

FILE = Path(__file__).with_name("explained.txt")
FIELDS = ["suite", "test", "modes", "lines", "why"]


@dataclass(frozen=True)
class TestCase:
    """One test on one side."""

    suite: str
    test: str
    mode: str
    line: str

    def __str__(self) -> str:
        return f"{self.suite}, {self.mode}, Spark {self.line}: {self.test}"


def read(file: Path = FILE) -> dict[TestCase, str]:
    """Returns the reason of each test on each side."""
    explained = {}
    for paragraph in file.read_text().split("\n\n"):
        lines = [line for line in paragraph.splitlines() if line and not line.startswith("#")]
        if lines:
            for test_case, why in _test_cases(lines):
                if test_case in explained:
                    raise ValueError(f"{file}: explained twice: {test_case}")
                explained[test_case] = why
    return explained


def _test_cases(lines: list[str]):
    fields = [line.split(": ", 1) for line in lines]
    names = [field[0] for field in fields]
    # A paragraph may name several tests.
    if list(dict.fromkeys(names)) != FIELDS or len(names) - names.count("test") != len(FIELDS) - 1:
        raise ValueError(f"the fields must be {FIELDS}, with one test or more, not {lines}")
    if any(len(field) != 2 for field in fields):
        raise ValueError(f"each of {FIELDS} needs a value, in {lines}")
    tests = [value for name, value in fields if name == "test"]
    suite, modes, spark_lines, why = (value for name, value in fields if name != "test")
    known = [(suite, [one.name for one in SUITES])]
    known += [(mode, MODES) for mode in modes.split(", ")]
    known += [(line, RELEASES) for line in spark_lines.split(", ")]
    for word, choice in known:
        if word not in choice:
            raise ValueError(f"{word!r} is none of {', '.join(choice)}")
    for test, mode, line in product(tests, modes.split(", "), spark_lines.split(", ")):
        yield TestCase(suite, test, mode, line), why
