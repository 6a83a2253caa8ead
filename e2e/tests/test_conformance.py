# SPDX-License-Identifier: Apache-2.0
"""The outcomes of Spark's own suites that fail the run, and those that do not."""

import argparse
from dataclasses import replace

import pytest

from conformance import __main__ as conformance
from conformance import explained, outcomes, table
from conformance.install import Installed
from conformance.outcomes import Outcome
from conformance.run import Ran
from conformance.suites import SUITES
from conformance.verdict import judge

SUITE = SUITES[0]
QUICK_SUITE = next(suite for suite in SUITES if "remote" in suite.quick)
PASSED = Outcome("passed")
FAILED = Outcome("failed", "1 did not equal 2")


def verdict_of(plain, ours, reasons=(), remote=1):
    ran = Ran(ours, shuffles=1, remote=remote)
    test_cases = {
        explained.TestCase(SUITE.name, test, "remote", "4.1"): "It is so." for test in reasons
    }
    return judge(SUITE, "remote", "4.1", plain, ran, test_cases)


def test_the_same_outcome_is_good():
    verdict = verdict_of({"a": PASSED, "b": Outcome("ignored")}, {"a": PASSED})
    assert verdict.is_good
    assert (verdict.tests, verdict.equal) == (1, 1)


@pytest.mark.parametrize(
    "ours", [{"a": FAILED}, {"a": Outcome("hung")}, {"a": Outcome("canceled")}, {}]
)
def test_a_test_that_passes_on_plain_spark_alone_fails_the_run(ours):
    verdict = verdict_of({"a": PASSED}, ours)
    assert not verdict.is_good
    assert "remote, Spark 4.1: a" in "\n".join(table.findings([verdict]))


def test_a_test_that_is_on_one_side_only_fails_the_run():
    assert not verdict_of({"a": PASSED}, {"a": PASSED, "b": PASSED}).is_good


def test_a_difference_that_is_explained_is_good():
    verdict = verdict_of({"a": PASSED}, {"a": FAILED}, reasons=["a"])
    assert verdict.is_good
    assert verdict.explained == 1


@pytest.mark.parametrize(
    ("mode", "counts", "is_plain"),
    [
        ("merge", {"shuffles": 3, "merged": 1}, False),
        ("merge", {"shuffles": 3, "single": 3}, False),
        ("merge", {"shuffles": 3, "single": 2}, True),
        ("merge", {}, True),
        ("remote", {"shuffles": 3, "single": 3}, True),
        ("remote", {"shuffles": 3, "remote": 1}, False),
    ],
)
def test_a_suite_whose_shuffles_go_past_lodestone_fails_the_run(mode, counts, is_plain):
    verdict = judge(SUITE, mode, "4.1", {"a": PASSED}, Ran({"a": PASSED}, **counts), {})
    assert verdict.is_silently_plain == is_plain
    assert verdict.is_good != is_plain


@pytest.mark.parametrize("test", ["a", "a test that does not exist"])
def test_an_explanation_of_a_test_that_does_not_differ_fails_the_run(test):
    verdict = verdict_of({"a": PASSED}, {"a": PASSED}, reasons=[test])
    assert not verdict.is_good
    assert "to be taken out" in "\n".join(table.findings([verdict]))


def test_a_suite_whose_shuffles_all_were_plain_fails_the_run():
    verdict = verdict_of({"a": PASSED}, {"a": PASSED}, remote=0)
    assert not verdict.is_good
    assert "No shuffle went through Lodestone" in "\n".join(table.findings([verdict]))


def test_a_test_that_fails_on_plain_spark_too_is_named_and_not_counted():
    verdict = verdict_of({"a": PASSED, "b": FAILED}, {"a": PASSED, "b": FAILED})
    assert verdict.is_good
    assert verdict.tests == 1
    assert "Spark 4.1: b" in "\n".join(table.findings([verdict]))


def test_every_explanation_is_valid_and_is_a_sentence():
    assert all(why.endswith(".") for why in explained.read().values())


def test_several_tests_may_have_the_same_explanation(tmp_path):
    file = tmp_path / "explained.txt"
    file.write_text(
        f"suite: {SUITE.name}\ntest: a\ntest: b: c\nmodes: merge\nlines: 4.1\nwhy: So.\n"
    )
    test_cases = [explained.TestCase(SUITE.name, test, "merge", "4.1") for test in ("a", "b: c")]
    assert explained.read(file) == dict.fromkeys(test_cases, "So.")


@pytest.mark.parametrize("fields", ["test: a", "suite: {0}\nsuite: {0}\ntest: a"])
def test_an_explanation_with_other_fields_than_it_wants_is_refused(fields, tmp_path):
    file = tmp_path / "explained.txt"
    file.write_text(fields.format(SUITE.name) + "\nmodes: merge\nlines: 4.1\nwhy: So.\n")
    with pytest.raises(ValueError, match="one test or more"):
        explained.read(file)


def test_an_explanation_of_an_unknown_suite_is_refused(tmp_path):
    file = tmp_path / "explained.txt"
    file.write_text("suite: NoSuite\ntest: a\nmodes: merge\nlines: 4.1\nwhy: It is so.\n")
    with pytest.raises(ValueError, match="NoSuite"):
        explained.read(file)


def test_the_test_in_which_a_jvm_was_killed_is_known(tmp_path):
    file = tmp_path / "events.txt"
    file.write_text(
        "1000\tstarted\tone: two\t\n"
        "2500\tfailed\tone: two\tNo.\\nNo!\n"
        "2500\tstarted\tthree\t\n"
        "9000\tpas"
    )
    events = outcomes.events_of(file)
    assert events.ended == {"one: two": Outcome("failed", "No.\\nNo!", 1.5)}
    assert (events.running, events.since, events.is_complete) == ("three", 2.5, False)


def test_half_of_a_suite_on_plain_spark_is_not_kept(tmp_path, monkeypatch):
    spark = Installed("4.1.2", tmp_path, [])
    given = argparse.Namespace(again=False, limit=1)
    killed = Ran({"a": PASSED, "b": Outcome("hung")})
    monkeypatch.setattr(conformance, "run", lambda *_: killed)
    with pytest.raises(conformance.DoesNotRun, match=SUITE.name):
        conformance.outcomes_on_plain(SUITE, spark, given)
    whole = Ran({"a": PASSED}, is_complete=True)
    monkeypatch.setattr(conformance, "run", lambda *_: whole)
    assert conformance.outcomes_on_plain(SUITE, spark, given) == {"a": PASSED}
    monkeypatch.setattr(conformance, "run", lambda *_: killed)
    assert conformance.outcomes_on_plain(SUITE, spark, given) == {"a": PASSED}


@pytest.mark.parametrize(
    ("ours", "asks_plain"),
    [
        (Ran({"a": PASSED, "b": Outcome("ignored")}, is_complete=True), False),
        (Ran({"a": PASSED, "b": FAILED}, is_complete=True), True),
        (Ran({"a": PASSED}), True),
        (Ran({"a": PASSED}, aborted="no", is_complete=True), True),
    ],
)
def test_the_quick_run_asks_plain_spark_where_a_test_did_not_pass(
    ours, asks_plain, tmp_path, monkeypatch
):
    theirs = Ran({"a": PASSED, "b": PASSED}, is_complete=True)
    modes = []

    def run(_suite, mode, *_):
        modes.append(mode)
        return theirs if mode is None else replace(ours, shuffles=1, remote=1)

    monkeypatch.setattr(conformance, "run", run)
    given = argparse.Namespace(again=False, limit=1, quick=True, modes=["remote"])
    spark = Installed("4.1.2", tmp_path, [])
    [verdict] = conformance.verdicts_of(QUICK_SUITE, "4.1", spark, given, {})
    assert modes == (["remote", None] if asks_plain else ["remote"])
    assert verdict.is_good != asks_plain


def test_outcomes_are_kept_as_they_were(tmp_path):
    file = tmp_path / "plain.txt"
    kept = {"one: two": Outcome("passed", "", 1.5), "three": Outcome("failed", "a\\tb", 0.1)}
    outcomes.save(kept, file)
    assert outcomes.load(file) == kept


def test_the_last_lines_of_all_applications_are_added_up(tmp_path):
    log = tmp_path / "driver.log"
    log.write_text(
        "lodestone: 1,000 of 1,234 shuffles merged, 12 remote, 0 blocks (0 bytes) pushed; "
        "while its services run, this prints the reasons: lodestone explain app\n"
        "lodestone: 2 of 9 shuffles merged, 0 blocks (0 bytes) pushed, "
        "9 read from originals; reasons: SINGLE_MAP 6, NO_SERVICE 1\n"
    )
    ran = Ran()
    ran.count(log)
    assert (ran.merged, ran.shuffles, ran.remote, ran.single) == (1002, 1243, 12, 6)
