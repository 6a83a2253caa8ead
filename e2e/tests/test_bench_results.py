# SPDX-License-Identifier: Apache-2.0
"""The results that the benches keep in `bench/results`, and the numbers that README.md takes from
there."""

import argparse
import csv
import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from matrix import history, keeping, questions, ratios, readme, result
from matrix.command_line import changed
from matrix.questions import MIN_ROUNDS
from matrix.ratios import Ratio
from matrix.sides import Setting
from matrix.workloads import BY_NAME
from queries import summary
from queries.__main__ import keep as keep_tpcds
from sorting.__main__ import keep_answer as keep_sort

from harness.paths import ROOT
from tpcds import query

MACHINE = {"cpus": 2, "cpu": "CPU", "memoryGb": 24}
SECONDS = {"plain": 10.0, "tuned": 8.0, "lodestone": 6.0, "auto": 4.0, "remote": 2.0}
JOBS = ["sort", "tiny", "sql"]
FAILED = {"failure": "another answer", "figures": {}}


def measured(jobs=JOBS, rounds=MIN_ROUNDS, disk="plain", commit="c0ffee1", **options) -> dict:
    """Returns a run of the matrix. Round n takes n tenths of a second longer."""
    runs = [
        {
            "round": number, "disk": disk, "job": job, "side": side, "failure": "", "details": {},
            "figures": {"seconds": seconds + number / 10},
        }
        for number in range(1, rounds + 1)
        for job in jobs
        for side, seconds in SECONDS.items()
    ]  # fmt: skip
    sizes = {f"{disk} {job}": dict(BY_NAME[job].sizes(disk)) for job in jobs}
    about = {"date": "2026-11-26 09:00 UTC", "commit": commit, "machine": MACHINE}
    shared = {"setting": {}, "rounds": rounds, "changed": options}
    return {**about, **shared, "sizes": sizes, "runs": runs}


def kept(folder, matrix_result: dict) -> list[str]:
    folder.mkdir(exist_ok=True)
    keeping.keep_matrix(matrix_result, lambda part: f"{len(part['runs'])} runs", folder)
    return sorted(file.name for file in folder.iterdir())


@pytest.fixture
def checkout(tmp_path):
    """Creates a repository with one commit."""
    identity = ["-c", "user.name=n", "-c", "user.email=n@example.org"]
    (tmp_path / "bench" / "results").mkdir(parents=True)
    (tmp_path / "file").write_text("committed")
    for words in (["init", "-q"], ["add", "."], [*identity, "commit", "-q", "-m", "first"]):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    return tmp_path


def test_a_changed_file_and_a_new_one_make_a_tree_dirty_and_results_do_not(checkout):
    clean = result.commit(checkout)
    assert keeping.obstacle(measured(commit=clean)) == ""
    (checkout / "bench" / "results" / "tpch.txt").write_text("measured")
    assert result.commit(checkout) == clean
    (checkout / "new").write_text("not committed")
    assert result.commit(checkout) == f"{clean}+"
    (checkout / "new").unlink()
    (checkout / "file").write_text("changed")
    assert "in no commit" in keeping.obstacle(measured(commit=result.commit(checkout)))


def test_a_folder_without_git_has_no_commit_and_its_results_are_not_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert "cannot name" in keeping.obstacle(measured(commit=result.commit(tmp_path)))


def test_the_bench_says_why_it_keeps_no_result_of_a_dirty_tree(tmp_path, capsys):
    assert kept(tmp_path, measured(commit="c0ffee1+")) == []
    assert "Not kept in bench/results: the working tree has changes" in capsys.readouterr().out
    keeping.warn(measured(commit="c0ffee1+"))
    assert "will not be kept" in capsys.readouterr().out
    keeping.warn(measured())
    assert capsys.readouterr().out == ""


def test_a_result_beside_a_dirty_checkout_or_under_a_profiler_is_not_kept(monkeypatch):
    beside = measured() | {"setting": {"before": "c0ffee2+"}}
    assert "the other checkout has changes" in keeping.obstacle(beside)
    monkeypatch.setenv("BENCH_EXECUTOR_OPTIONS", "-agentpath:profiler")
    setting = Setting("4.1.4", 2, 1, 1024, network_reads=False, tables=Path("/tables"))
    profiled = measured() | {"setting": result.begun(setting, "matrix", 3, {})["setting"]}
    assert "BENCH_EXECUTOR_OPTIONS" in keeping.obstacle(profiled)


def test_a_whole_run_of_a_clean_tree_overwrites_its_text_and_appends_to_the_history(tmp_path):
    names = ["history.csv", "ratios.csv", "real-jobs.txt"]
    assert kept(tmp_path, measured()) == names
    (tmp_path / "real-jobs.txt").write_text("an older answer")
    assert kept(tmp_path, measured()) == names
    runs = len(JOBS) * len(SECONDS) * MIN_ROUNDS
    assert (tmp_path / "real-jobs.txt").read_text() == f"{runs} runs"
    with (tmp_path / "history.csv").open(newline="") as file:
        first, *others = csv.DictReader(file)
    assert first == {
        "date": "2026-11-26 09:00", "commit": "c0ffee1", "machine": "2 x CPU, 24 GB",
        "job": "sort", "side": "plain", "median": "10.20", "spread": "10.10-10.30",
    }  # fmt: skip
    assert len(others) == 2 * len(JOBS) * len(SECONDS) - 1


@pytest.mark.parametrize(
    "part",
    [
        measured(jobs=["sort"]),
        measured(rounds=MIN_ROUNDS - 1),
        measured(cold=True),
        measured() | {"runs": measured()["runs"][:-1]},
        measured() | {"sizes": measured()["sizes"] | {"plain tiny": {"maps": 8}}},
        measured() | {"runs": [measured()["runs"][0] | FAILED, *measured()["runs"][1:]]},
    ],
    ids=["one job", "few rounds", "cold", "interrupted", "other sizes", "failed"],
)
def test_a_run_that_is_only_a_part_of_a_question_leaves_its_text_alone(part, tmp_path):
    assert "real-jobs.txt" not in kept(tmp_path, part)


def test_fresh_applications_have_a_text_and_ratios_of_their_own(tmp_path):
    kept(tmp_path, measured())
    jobs = [*JOBS, "groups", "rows"]
    cold = measured(jobs, cold=True)
    assert kept(tmp_path, cold) == ["cold.txt", "history.csv", "ratios.csv", "real-jobs.txt"]
    results = {one.job: one.result for one in ratios.read(tmp_path / "ratios.csv")}
    assert (results["sort"], results["sort, cold"]) == ("real-jobs", "cold")
    assert "cold.txt" not in kept(tmp_path / "other", measured(jobs, cold=True, reads=1))


def test_a_comparison_with_another_codec_has_a_text_and_ratios_of_its_own(tmp_path):
    with_zstd = measured(["tpch"], codec="zstd")
    assert kept(tmp_path, with_zstd) == ["history.csv", "ratios.csv", "zstd.txt"]
    found = {(one.job, one.result) for one in ratios.read(tmp_path / "ratios.csv")}
    assert found == {("tpch, codec zstd", "zstd")}
    assert "zstd.txt" not in kept(tmp_path / "other", measured(["tpch"]))


def test_jobs_of_another_size_and_of_few_rounds_have_no_line_of_history():
    other = measured() | {"sizes": measured()["sizes"] | {"plain tiny": {"maps": 8}}}
    assert {row.job for row in history.rows_of_matrix(other)} == {"sort", "sql"}
    assert history.rows_of_matrix(measured(rounds=MIN_ROUNDS - 1)) == []


def test_the_history_names_the_commit_of_the_other_checkout_for_its_sides():
    result_of_both = measured() | {"setting": {"before": "c0ffee2"}}
    result_of_both["runs"] += [
        run | {"side": "before"} for run in result_of_both["runs"] if run["side"] == "auto"
    ]
    commits = {(row.side, row.commit) for row in history.rows_of_matrix(result_of_both)}
    assert {("before", "c0ffee2"), ("auto", "c0ffee1")} <= commits


def test_the_history_names_the_disk_and_the_options_that_a_job_was_measured_with():
    slow = measured(jobs=["sort"], disk="throttled", cold=True, spark="4.3.0")
    assert {row.job for row in history.rows_of_matrix(slow)} == {
        "throttled sort, cold, spark 4.3.0"
    }


def test_options_that_have_their_default_do_not_make_a_result_another_one():
    parser = argparse.ArgumentParser()
    parser.add_argument("--spark", default="4.1.4")
    parser.add_argument("--cold", action="store_true")
    names = ["spark", "cold"]
    assert changed(parser.parse_args(["--spark", "4.1.4"]), parser, names) == {}
    assert changed(parser.parse_args(["--cold"]), parser, names) == {"cold": True}


def test_ratios_of_a_text_replace_those_that_it_had_and_no_others(tmp_path):
    path = tmp_path / "ratios.csv"
    ratios.replace(path, "tpch", [Ratio("tpch", "auto", "plain", "0.75", "tpch", "a", "")])
    for number in ("0.90", "0.80"):
        ratios.replace(path, "tpcds", [Ratio("tpcds", "auto", "plain", number, "tpcds", "b", "")])
    assert [(one.job, one.ratio) for one in ratios.read(path)] == [
        ("tpcds", "0.80"),
        ("tpch", "0.75"),
    ]


def test_ratios_are_to_the_faster_side_of_plain_spark(tmp_path):
    kept(tmp_path, measured())
    of_sort = {one.side: one for one in ratios.read(tmp_path / "ratios.csv") if one.job == "sort"}
    assert of_sort.keys() == {"plain", "lodestone", "auto", "remote"}
    assert {one.base for one in of_sort.values()} == {"tuned"}
    assert of_sort["auto"].ratio == f"{4.2 / 8.2:.2f}"


@pytest.mark.parametrize(("mb", "shown"), [(0.0, "0"), (1081.4, "1,081")])
def test_a_ratio_comes_with_the_part_of_the_shuffle_that_was_merged(mb, shown):
    part = measured(jobs=["sort"])
    for run in part["runs"]:
        run["figures"] |= {"mergedMb": mb, "writtenMb": 2121.0}
    found = {one.side: one.remark for one in ratios.of_matrix("real-jobs", part)}
    assert found["auto"] == f"merged {shown} MB (shuffled: 2,121 MB)"


def decision_support(sides=None, rounds=1) -> dict:
    """Returns a run of all queries; in round n each takes n times as long."""
    names = query.names()
    runs = [
        {
            "round": number, "disk": "plain", "job": name, "side": side, "failure": "", "rows": 1,
            "figures": {
                "querySeconds": number * SECONDS[side], "taskCpuSeconds": 1.0, "cpuSeconds": 1.0,
                "writtenMb": 1.0,
            },
            "report": {},
        }
        for number in range(1, rounds + 1)
        for name in names
        for side in sides or SECONDS
    ]  # fmt: skip
    setting = {"spark": "4.1.4", "master": "local-cluster[2,1,1024]"}
    about = {"date": "then", "commit": "c0ffee1", "command": "queries", "notes": [], "scale": "1"}
    return {
        **about, "machine": MACHINE | {"system": "Linux"}, "setting": setting, "rounds": rounds,
        "sides": list(sides or SECONDS), "changed": {}, "runs": runs,
    }  # fmt: skip


def test_all_queries_of_tpcds_are_one_job_of_the_history_and_a_part_of_them_is_not_kept(tmp_path):
    keep_tpcds(decision_support() | {"runs": decision_support()["runs"][:-5]}, tmp_path)
    keep_tpcds(decision_support(sides=["plain", "auto"]), tmp_path)
    first, *others = decision_support()["runs"]
    keep_tpcds(decision_support() | {"runs": [first | FAILED, *others]}, tmp_path)
    assert list(tmp_path.iterdir()) == []
    keep_tpcds(decision_support(rounds=2), tmp_path)
    of_plain = next(row for row in summary.history_of(decision_support(rounds=2)))
    queries = len(query.names())
    assert of_plain.spread == f"{queries * 10:.2f}-{queries * 20:.2f}"
    found = {one.side: (one.base, one.ratio) for one in ratios.read(tmp_path / "ratios.csv")}
    assert found["auto"] == ("tuned", "0.50")
    remark = {one.side: one.remark for one in ratios.read(tmp_path / "ratios.csv")}["plain"]
    assert remark == f"was more than 20% slower in {queries} of {queries} queries"
    assert (tmp_path / "tpcds.txt").exists()


def sorted_by(sides, rounds=MIN_ROUNDS) -> dict:
    runs = [
        {"side": side, "round": number, "seconds": {"sort": SECONDS[side]}}
        for number in range(1, rounds + 1)
        for side in sides
    ]
    return measured(rounds=rounds) | {"minute": False, "runs": runs}


def test_a_sort_of_all_sides_is_kept_and_a_sort_of_one_side_is_a_line_of_history(tmp_path):
    keep_sort(sorted_by(["auto"]), "page", tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["history.csv"]
    keep_sort(sorted_by(SECONDS), "page", tmp_path)
    assert (tmp_path / "sort-benchmark.txt").read_text() == "page"
    found = {one.side: (one.base, one.ratio) for one in ratios.read(tmp_path / "ratios.csv")}
    assert found["auto"] == ("tuned", "0.50")
    assert found["plain"] == ("tuned", "1.25")


def test_the_minute_sort_and_the_sort_of_all_sides_are_parts_of_one_text(tmp_path):
    minute = sorted_by(["auto"]) | {"minute": True}
    minute["runs"] = [{"side": "auto", "bytes": 5e9, "fits": True}]
    keep_sort(minute, "first minute", tmp_path)
    keep_sort(sorted_by(SECONDS), "all sides", tmp_path)
    keep_sort(minute, "second minute", tmp_path)
    keep_sort(sorted_by(SECONDS), "all sides again", tmp_path)
    text = (tmp_path / "sort-benchmark.txt").read_text()
    assert text == "all sides again\n== MinuteSort ==\n\nsecond minute"
    assert {one.side for one in ratios.read(tmp_path / "ratios.csv")} == {*SECONDS} - {"tuned"}


def test_a_sort_of_one_round_is_a_line_of_history_for_each_side_and_no_text(tmp_path):
    keep_sort(sorted_by(SECONDS, rounds=1), "page", tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["history.csv"]
    lines = (tmp_path / "history.csv").read_text().splitlines()
    assert len(lines) == 1 + len(SECONDS)


def test_bench_results_has_one_text_for_each_question_and_no_raw_results():
    names = {file.name for file in keeping.RESULTS.iterdir()}
    assert names == {f"{name}.txt" for name in questions.NAMES} | {"history.csv", "ratios.csv"}
    page = (keeping.RESULTS.parent / "README.md").read_text()
    assert [name for name in questions.NAMES if f"results/{name}.txt" not in page] == []


def test_pages_name_only_result_files_that_exist():
    pages = [
        page
        for folder in ("*", "docs/**/*", "bench/*", "e2e/*/*")
        for page in ROOT.glob(f"{folder}.md")
    ]
    named = {
        name for page in pages for name in re.findall(r"results/([\w-]+\.\w+)", page.read_text())
    }
    assert "real-jobs.txt" in named
    assert [name for name in sorted(named) if not (keeping.RESULTS / name).exists()] == []


def test_the_history_has_clean_commits_only():
    with (keeping.RESULTS / "history.csv").open(newline="") as file:
        lines = list(csv.DictReader(file))
    assert len(lines) > 100
    assert [line for line in lines if keeping.obstacle(line | {"setting": {}})] == []


def test_the_numbers_of_the_readme_are_those_of_the_result_file():
    found = ratios.read(readme.RATIOS)
    text = readme.README.read_text()
    assert readme.with_numbers(text, found) == text, "run `make numbers`"
    for job in ("sort", "sort-benchmark", "throttled sql"):
        others = [replace(one, ratio="9.99") if one.job == job else one for one in found]
        assert readme.with_numbers(text, others) != text, job


def test_the_table_of_the_readme_says_when_tuned_spark_was_not_run():
    found = [
        Ratio(job, side, "plain", "0.50", question, "c0ffee1", "merged nothing")
        for job, question, _ in readme.JOBS
        for side in ("auto", "lodestone", "remote")
    ]
    assert "| plain (only this one was run) | 0.50 | 0.50 | 0.50 |" in readme.table(found)[2]
    found.append(Ratio("sort", "tuned", "plain", "1.10", "real-jobs", "c0ffee1", ""))
    assert "| plain | 0.50 |" in readme.table(found)[2]


def test_the_table_of_the_readme_states_results_only_as_remarks_of_the_result_file():
    def table(remark: str) -> str:
        found = [
            Ratio(job, side, "plain", "0.50", question, "c0ffee1", remark)
            for job, question, _ in readme.JOBS
            for side in ("auto", "lodestone", "remote")
        ]
        return "\n".join(readme.table(found))

    assert table("merged 7 of 9 MB").count(". Auto merged 7 of 9 MB |") == len(readme.JOBS)
    assert "Auto" not in table("")
    assert "slower" not in table("")
