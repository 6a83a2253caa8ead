# SPDX-License-Identifier: Apache-2.0
"""Keeps results in `bench/results` if they belong to a commit, so that they can be measured again.
Everything else is only printed."""

from collections.abc import Callable
from pathlib import Path

from harness.screen import say

from . import history, questions, ratios
from .history import Row
from .ratios import Ratio
from .result import UNKNOWN
from .sides import BENCH, EXECUTOR_OPTIONS

RESULTS = BENCH / "results"


def obstacle(result: dict) -> str:
    """Returns the reason why nothing of this result is kept, if there is one."""
    commit = result["commit"]
    if commit == UNKNOWN:
        return "git cannot name the commit that was measured"
    if ";" in commit:
        return f"its runs are from more than one commit ({commit})"
    if commit.endswith("+"):
        return "the working tree has changes that are in no commit (see `git status`)"
    before = result["setting"].get("before", "")
    if before == UNKNOWN or before.endswith("+"):
        return "the other checkout has changes that are in no commit, or is no checkout"
    if result["setting"].get("executorOptions"):
        return f"executors had the options of {EXECUTOR_OPTIONS}"
    return ""


def warn(result: dict) -> None:
    """Prints this reason before the first run, so that users do not wait an hour for a result that
    is not kept."""
    reason = obstacle(result)
    if reason:
        say(f"== The results will not be kept in bench/results: {reason}.")


class Keeper:
    """Writes to one folder, if the result has no obstacle."""

    def __init__(self, result: dict, folder: Path = RESULTS):
        self._folder = folder
        reason = obstacle(result)
        self._may_keep = not reason
        if reason:
            say(f"== Not kept in bench/results: {reason}.")

    def text(self, question: str, page: str, found: list[Ratio]) -> None:
        """Overwrites the answer to a question, and its ratios."""
        self.part(question, lambda _: page)
        self.ratios(question, found)

    def ratios(self, question: str, found: list[Ratio]) -> None:
        """Overwrites the ratios of a question."""
        if self._may_keep:
            ratios.replace(self._folder / "ratios.csv", question, found)

    def part(self, question: str, page_after: Callable[[str], str]) -> None:
        """Changes the answer to a question, whose text until now the function gets."""
        if not self._may_keep:
            return
        path = self._folder / f"{question}.txt"
        path.write_text(page_after(path.read_text() if path.exists() else ""))
        say(f"== Kept: bench/results/{question}.txt. `make numbers` updates README.md.")

    def history(self, rows: list[Row]) -> None:
        if self._may_keep and rows:
            history.append(self._folder / "history.csv", rows)
            say(f"== Appended to bench/results/history.csv: {len(rows)} lines.")


def keep_matrix(result: dict, page: Callable[[dict], str], folder: Path = RESULTS) -> None:
    """Keeps a run of the matrix: a text for each question that it answers, a line of history for
    each job with its full size."""
    keeper = Keeper(result, folder)
    answered = questions.answered(result)
    if not answered:
        say("== No text in bench/results is overwritten: this run is only a part of each of them.")
    for question, part in answered.items():
        keeper.text(question, page(part), ratios.of_matrix(question, part))
    keeper.history(history.rows_of_matrix(result))
