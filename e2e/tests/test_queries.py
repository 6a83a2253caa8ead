# SPDX-License-Identifier: Apache-2.0
"""The page of `make tpcds`, and the comparison of answers."""

import pytest
from matrix import result
from queries import page
from queries.__main__ import Suite, resumed

from tpcds import query

SIDES = ["plain", "auto", "remote"]
FIGURES = {"taskCpuSeconds": 1.0, "cpuSeconds": 2.0, "writtenMb": 3.0}


def run(job: str, side: str, seconds: float, failure: str = "", report: dict | None = None) -> dict:
    where = {"round": 1, "disk": "plain", "job": job, "side": side, "failure": failure, "rows": 7}
    figures = {} if failure else FIGURES | {"querySeconds": seconds}
    return {**where, "figures": figures, "report": report or {}}


def result_of(runs: list[dict]) -> dict:
    kept = {"date": "then", "commit": "c0ffee", "command": "queries", "machine": result.machine()}
    setting = {"spark": "4.1.4", "master": "local-cluster[2,1,1024]"}
    return {**kept, "setting": setting, "rounds": 1, "scale": "1", "sides": SIDES, "notes": [],
            "changed": {}, "runs": runs}  # fmt: skip


def line_of(text: str, begin: str) -> str:
    return next(line for line in text.splitlines() if line.startswith(begin))


def test_a_query_that_one_side_failed_at_is_in_no_sum_and_named():
    runs = [run("q1", side, 2) for side in SIDES]
    runs += [run("q2", "plain", 9), run("q2", "auto", 9), run("q2", "remote", 0, "no space left")]
    shown = page.of(result_of(runs))
    assert "Sums over 1 of 2 queries" in shown
    assert line_of(shown, "plain ").split()[1] == "2.00"
    assert "q2, remote, round 1: no space left" in shown
    assert "Failures: 1 of 6 runs" in shown


def test_queries_a_fifth_slower_than_plain_spark_are_counted_and_named():
    runs = [run("q1", "plain", 10), run("q1", "auto", 12), run("q1", "remote", 12.1)]
    shown = page.of(result_of(runs))
    assert "More than 20% slower than plain: 1 queries" in shown
    assert line_of(shown, "q1 ").split()[1:4] == ["remote", "x", "1.21"]


def test_queries_are_compared_with_the_side_of_plain_spark_that_took_less_time_in_all():
    sides = ["plain", "tuned", "auto"]
    seconds = {"q1": (4, 5, 5), "q2": (20, 10, 12.5)}
    runs = [
        run(name, side, one)
        for name, of_query in seconds.items()
        for side, one in zip(sides, of_query, strict=True)
    ]
    shown = page.of(result_of(runs) | {"sides": sides})
    assert "x tuned" in line_of(shown, "    ")
    assert line_of(shown, "auto ").split()[5] == f"{17.5 / 15:.2f}"
    assert line_of(shown, "q2 ").split()[1:4] == ["plain", "x", "2.00"]
    assert "auto x 1.25 (12.5 s, tuned 10.0 s)" in line_of(shown, "q2 ")


def test_the_page_names_the_queries_that_were_not_run():
    names = query.names()
    shown = page.of(result_of([run(name, side, 1) for name in names[:-2] for side in SIDES]))
    assert f"Not run: {names[-2]}, {names[-1]}." in shown
    assert "All answers were the same." in shown


def test_the_page_counts_the_outcomes_of_shuffles_and_their_reasons():
    report = {"merged": 1, "plain": 2, "remote": 0, "reasons": {"FEW_BLOCKS": 2}}
    runs = [run("q1", "plain", 1), run("q1", "auto", 1, report=report), run("q1", "remote", 1)]
    assert "1 merged, 2 plain: FEW_BLOCKS 2" in page.of(result_of(runs))


def test_an_answer_that_differs_from_plain_sparks_is_a_failure(tmp_path, monkeypatch):
    monkeypatch.setattr("queries.__main__.DIFFERENT", tmp_path)
    suite = Suite(result_of([]), tmp_path / "page.txt")
    assert suite.difference("q1", "plain", [["a"]]) == ""
    assert suite.difference("q1", "auto", [["a"]]) == ""
    assert "WRONG ANSWER" in suite.difference("q1", "remote", [["b"]])
    assert (tmp_path / "q1-remote.json").exists()


def test_runs_of_another_kind_cannot_be_resumed():
    before = result_of([run("q1", side, 1) for side in SIDES])
    assert Suite(result_of([]) | resumed(result_of([]), before), None).has(1, "q1")
    with pytest.raises(SystemExit, match="another scale"):
        resumed(result_of([]), before | {"scale": "10"})
