# SPDX-License-Identifier: Apache-2.0
"""A bug that writers or readers of shuffles could have: a change of the plugin's source."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Change:
    """In a file below the plugin's sources, `before` stands once, and becomes `after`."""

    file: str
    before: str
    after: str


@dataclass(frozen=True)
class Bug:
    """What is wrong, and the suite that must notice it."""

    what: str
    suite: str
    changes: tuple[Change, ...]


def bug(what: str, suite: str, *changes: tuple[str, str, str]) -> Bug:
    return Bug(what, suite, tuple(Change(*change) for change in changes))
