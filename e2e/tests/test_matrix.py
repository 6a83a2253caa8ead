# SPDX-License-Identifier: Apache-2.0
"""The figures, bars and tables of `make bench`."""

import re
import subprocess
import sys

import pytest
from matrix import disk, figures, network, sides, table
from matrix.answers import Answers
from matrix.bars import judged
from matrix.result import machine
from matrix.sessions import Sessions
from matrix.summary import cell, opponent, sections
from matrix.workloads import BY_NAME

from harness.paths import plugin_jar, spark_home

USED = {kind: {"cpu": 1.0, "peakMb": 10.0} for kind in ("executors", "services", "driver")}
NOTHING = "tasks failed runMs cpuMs gcMs fetchWaitMs readBytes readBlocks readRecords mergedBytes"
NOTHING += " writtenBytes writtenRecords spilledBytes"


def stage(began_s: float, ended_s: float, **sums) -> dict:
    nothing = dict.fromkeys(NOTHING.split(), 0)
    return {**nothing, "beganMs": began_s * 1000, "endedMs": ended_s * 1000, **sums}


def mapping(began_s: float, ended_s: float) -> dict:
    return stage(began_s, ended_s, writtenRecords=5, writtenBytes=2_000_000)


def reducing(began_s: float, ended_s: float) -> dict:
    return stage(began_s, ended_s, readRecords=5, readBytes=2_000_000, fetchWaitMs=500)


@pytest.mark.parametrize("program", sorted(sides.BENCH.glob("*/*.java")), ids=lambda p: p.stem)
def test_the_java_programs_of_the_bench_compile(program, tmp_path):
    """They are compiled only when they are run."""
    class_path = f"{plugin_jar('4.1.4')}:{spark_home('4.1.4')}/jars/*"
    compiler = ["javac", "-nowarn", "-cp", class_path, "-d", tmp_path, program]
    compiled = subprocess.run(compiler, capture_output=True, text=True)
    assert compiled.returncode == 0, compiled.stderr


def run_result(stages: list[dict], paused: float = 0.0, report: dict | None = None) -> dict:
    measured = {"used": USED, "machine": {"machineCpu": 4.5, "stolen": 0.1}}
    return {"seconds": 9.0, "paused": paused, "stages": stages, "report": report or {}, **measured}


def run(
    number: int, side: str, seconds: float, failure: str = "", disk="plain", job="sort", **others
) -> dict:
    measured = {} if failure else {"seconds": seconds, **others}
    where = {"round": number, "disk": disk, "job": job, "side": side}
    return {**where, "failure": failure, "figures": measured}


def lines_of(runs: list[dict], about: str) -> list[str]:
    """Returns the verdicts of bars on runs at full size."""
    sizes = {f"{disk} {job}": dict(BY_NAME[job].sizes(disk)) for disk, job in sections(runs)}
    return [line for line in judged(result_of(runs, sizes)) if about in line]


def result_of(runs: list[dict], sizes: dict, **options) -> dict:
    return {"runs": runs, "sizes": sizes, "changed": options}


def test_phases_are_the_seconds_in_which_their_stages_have_tasks():
    overlapping = [mapping(0, 4), mapping(3, 5), reducing(7, 9)]
    found = figures.of_run(run_result(overlapping))
    assert found["mapSeconds"] == pytest.approx(5)
    assert found["reduceSeconds"] == pytest.approx(2)
    assert found["gapSeconds"] == pytest.approx(2)
    assert found["fetchWaitSeconds"] == pytest.approx(0.5)
    assert (found["writtenMb"], found["readMb"]) == (4, 2)


def test_a_pause_that_the_bench_made_is_no_gap_but_waiting_for_the_merge_is():
    found = figures.of_run(
        run_result([mapping(0, 2), reducing(5, 6)], paused=2.5, report={"readersWaitedMillis": 250})
    )
    assert found["gapSeconds"] == pytest.approx(0.75)


def test_the_cpu_of_a_daemon_is_divided_by_its_bytes_in_and_out():
    found = figures.of_run(
        run_result([mapping(0, 1)], report={"bytesPushed": 300_000_000, "chunkBytes": 200_000_000})
    )
    assert found["serviceCpuPerGb"] == pytest.approx(2)
    assert "serviceCpuPerGb" not in figures.of_run(run_result([mapping(0, 1)]))


def test_the_page_says_what_went_over_the_wire_where_executors_have_hosts_of_their_own():
    sent = figures.of_run(run_result([mapping(0, 1)]) | {"sent": 5_000_000})
    assert sent["wireMb"] == pytest.approx(5)
    for place, figure, is_shown in (("network", sent, True), ("plain", {}, False)):
        runs = [run(1, "plain", 2, disk=place) | {"figures": {"seconds": 2} | figure}]
        shown = "\n".join(table.render({"plain": cell(runs, place, "sort", "plain")}))
        assert ("wire MB" in shown) == is_shown


def test_hosts_of_the_network_count_what_they_send_and_are_limited_in_both_directions():
    with network.hosts(executors=2) as hosts:
        source, target = hosts.executors
        before = hosts.sent()
        send(10_000_000, source, target)
        assert 10_000_000 < hosts.sent() - before < 11_000_000
        limits = [hosts.driver.enter, source.enter, target.enter]
        rates = [limited(enter) for enter in limits]
        assert rates == [[network.RATE] * 2, [network.RATE], [network.RATE]]


def limited(enter: tuple[str, ...]) -> list[str]:
    """Returns the rate of each device that has one."""
    shown = subprocess.run([*enter, "tc", "qdisc", "show"], capture_output=True, text=True)
    return [rate.lower() for rate in re.findall(r"rate (\S+)", shown.stdout)]


def send(size: int, source, target) -> None:
    """Sends so many bytes from one host to the other."""
    receive = "import socket,sys; s=socket.create_server((sys.argv[1], 0))"
    receive += "; print(s.getsockname()[1], flush=True); c=s.accept()[0]"
    receive += "\nwhile c.recv(1 << 20): pass"
    push = "import socket,sys; s=socket.create_connection((sys.argv[1], int(sys.argv[2])))"
    push += "; s.sendall(bytes(int(sys.argv[3])))"
    command = [*target.enter, sys.executable, "-c", receive, target.address]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as receiver:
        port = receiver.stdout.readline().strip()
        sender = [*source.enter, sys.executable, "-c", push, target.address, port, str(size)]
        subprocess.run(sender, check=True)
    assert receiver.returncode == 0


def test_the_page_reports_the_cpu_of_other_processes():
    assert figures.of_run(run_result([mapping(0, 1)]))["othersCpuSeconds"] == pytest.approx(1.5)


def test_ratios_compare_within_a_round_and_not_across():
    slow_round = [run(1, "plain", 10), run(1, "lodestone", 9)]
    fast_rounds = [run(n, side, s) for n in (2, 3) for side, s in (("plain", 2), ("lodestone", 1))]
    found = cell(slow_round + fast_rounds, "plain", "sort", "lodestone")
    assert found.ratios["seconds"] == pytest.approx(0.5)
    assert (found.figures["seconds"].least, found.figures["seconds"].most) == (1, 9)


def test_ratios_are_to_the_side_of_plain_spark_that_was_faster_by_the_rounds_own_ratios():
    # Slow rounds hit plain less often: by medians it would be the faster one.
    rounds = [(2, 1, 1), (2, 1, 1), (2, 9, 9), (2, 9, 9), (20, 10, 5)]
    runs = [
        run(number, side, seconds, cpuSeconds=cpu)
        for number, of_round in enumerate(rounds)
        for (side, cpu), seconds in zip(
            (("plain", 1.0), ("tuned", 4.0), ("auto", 2.0)), of_round, strict=True
        )
    ]
    assert opponent(runs, "plain", "sort") == "tuned"
    found = cell(runs, "plain", "sort", "auto")
    assert (found.base, found.ratios["seconds"]) == ("tuned", pytest.approx(1))
    assert found.ratios["cpuSeconds"] == pytest.approx(0.5), "one base for all figures"
    assert opponent([one for one in runs if one["side"] != "tuned"], "plain", "sort") == "plain"
    assert opponent([one for one in runs if one["side"] != "plain"], "plain", "sort") == "tuned"


def test_bars_and_tables_name_the_side_that_their_ratios_are_to():
    seconds = {"plain": 10, "tuned": 8, "auto": 7}
    runs = [run(1, side, one) for side, one in seconds.items()]
    (line,) = lines_of(runs, "auto, sort: wall, x tuned")
    assert line.startswith("kept") and "0.88" in line
    result = result_of([one | {"details": {}} for one in runs], {"plain sort": {}})
    setting = {"spark": "4.1.4", "master": "local-cluster[2,1,1024]", "network_reads": False}
    about = {"date": "then", "commit": "c0ffee", "command": "matrix", "rounds": 1}
    shown = table.page({**result, **about, "machine": machine(), "setting": setting})
    assert "; x: to tuned" in shown
    assert "7.00 (7.00-7.00) x 0.88" in shown


def test_queries_of_a_job_are_compared_within_a_round():
    rounds = [(4, 2), (40, 10), (40, 10)]
    runs = [
        run(number, side, 1, job="tpch") | {"details": {"q01": seconds}}
        for number, of_round in enumerate(rounds)
        for side, seconds in zip(("plain", "auto"), of_round, strict=True)
    ]
    (line,) = table.details_of(runs, "plain", "tpch")
    assert line.endswith("auto  10.00 x 0.25")


def test_merging_is_compared_with_merging_of_the_other_checkout():
    runs = [run(1, "merge-before", 9, cpuSeconds=10), run(1, "lodestone", 9, cpuSeconds=10.3)]
    (line,) = lines_of(runs, "lodestone, sort: CPU, x the other checkout")
    assert line.startswith("MISSED") and "1.03" in line


def test_a_tuned_side_is_plain_spark_without_a_file_for_each_partition():
    tuned = sides.BY_NAME["tuned"]
    assert tuned.conf == {"spark.shuffle.sort.bypassMergeThreshold": "1"}
    assert {"plain", "tuned"} <= set(sides.USUAL)


@pytest.mark.parametrize("codec", sides.CODECS)
def test_all_sides_compress_with_the_codec_that_was_asked_for(codec, tmp_path):
    setting = sides.Setting("4.1.4", 2, 1, 1024, False, tmp_path, codec=codec)
    for name in (*sides.OPPONENTS, "auto", "remote"):
        conf = sides.settings(sides.BY_NAME[name], setting, tmp_path)
        assert conf["spark.io.compression.codec"] == codec


class FakeSession:
    """An application that only counts its runs."""

    started: list[str] = []
    stopped: list[str] = []

    def __init__(self, side, *_):
        self.side = side.name
        self.started.append(side.name)

    def run(self, job, _sizes, is_cold):
        assert not is_cold, "the disk is not throttled"
        return {"job": job}

    def stop(self):
        self.stopped.append(self.side)


@pytest.mark.parametrize(("warm_up", "starts"), [({}, 1), (None, 3)], ids=["warm", "cold"])
def test_cold_runs_have_an_application_each_and_warm_ones_share_one(warm_up, starts, monkeypatch):
    monkeypatch.setattr(FakeSession, "started", [])
    monkeypatch.setattr(FakeSession, "stopped", [])
    monkeypatch.setattr("matrix.sessions.Session", FakeSession)
    with Sessions(None, None, warm_up, 1.0, "plain") as sessions:
        for _ in range(3):
            assert sessions.run("auto", "sort", {}) == {"job": "sort"}
            assert len(FakeSession.started) - len(FakeSession.stopped) == (warm_up is not None)
    assert FakeSession.started == FakeSession.stopped == ["auto"] * starts


def test_an_answer_that_differs_from_the_first_is_a_failure():
    answers = Answers()
    assert answers.difference("plain", "sort", {"maps": 2}, [["1"]]) == ""
    assert answers.difference("ess", "sort", {"maps": 2}, [["1"]]) == ""
    assert "plain" in answers.difference("lodestone", "sort", {"maps": 2}, [["2"]])
    assert answers.difference("lodestone", "sort", {"maps": 3}, [["2"]]) == ""


def test_a_failed_run_is_shown_with_its_reason_and_counts_for_nothing():
    runs = [run(1, "plain", 2), run(1, "push", 0, failure="no space left"), run(2, "push", 3)]
    shown = "\n".join(table.render({"push": cell(runs, "plain", "sort", "push")}))
    assert "push FAILED: no space left" in shown
    assert "3.00 (3.00-3.00)" in shown


def test_bars_are_judged_at_their_own_sizes_only():
    runs = [run(1, "plain", 2), run(1, "lodestone", 3)]
    own = dict(BY_NAME["sort"].plain)
    (line,) = judged(result_of(runs, {"plain sort": own}))
    assert line.startswith("MISSED") and "1.50" in line
    assert judged(result_of(runs, {"plain sort": own | {"maps": 8}})) == []
    slow = [one | {"disk": "throttled"} for one in (*runs, run(1, "auto", 3))]
    assert judged(result_of(slow, {"throttled sort": own})) == []
    assert judged(result_of(runs, {"plain sort": own}, cold=True)) == []


@pytest.mark.parametrize(
    ("disk", "job", "seconds", "verdict"),
    [
        ("plain", "sort", 1.02, "kept"),
        ("plain", "tpch", 1.03, "MISSED"),
        ("plain", "tiny", 0.99, "kept"),
        ("plain", "tiny", 1.0, "MISSED"),
        ("throttled", "tiny", 1.03, "MISSED"),
        ("throttled", "sql", 1.0, "kept"),
    ],
)
def test_auto_is_never_slower_than_plain_spark_on_either_disk(disk, job, seconds, verdict):
    runs = [run(1, "plain", 1, disk=disk, job=job), run(1, "auto", seconds, disk=disk, job=job)]
    title = job if disk == "plain" else f"{disk} {job}"
    (line,) = lines_of(runs, f"auto, {title}: wall, x plain")
    assert line.startswith(verdict)


def test_auto_is_judged_by_the_best_mode_that_it_could_have_chosen():
    seconds = {"plain": (10, 5, 8), "lodestone": (5, 4, 6), "remote": (3, 2, 4), "auto": (6, 4, 6)}
    runs = [
        run(number, side, one, disk="throttled", job="tiny")
        for side, of_side in seconds.items()
        for number, one in enumerate(of_side)
    ]
    (line,) = lines_of(runs, "the best fixed mode")
    assert "auto, throttled tiny: wall, x the best fixed mode (lodestone)" in line
    assert line.startswith("kept") and "1.00" in line
    (line,) = lines_of(runs, "x remote")
    assert line.startswith("info") and line.endswith("2.00"), "auto never chooses it: no verdict"


def test_auto_that_is_slower_than_the_best_mode_misses_its_bar():
    (line,) = lines_of(
        [run(1, "plain", 10), run(1, "lodestone", 12), run(1, "auto", 10.3)], "fixed mode"
    )
    assert line.startswith("MISSED") and "(plain)" in line and "1.03" in line


def test_no_mode_is_the_best_one_where_another_was_not_run():
    assert lines_of([run(1, "plain", 10), run(1, "auto", 9)], "fixed mode") == []
    failed = run(1, "lodestone", 0, failure="no space left")
    assert lines_of([run(1, "plain", 10), failed, run(1, "auto", 9)], "fixed mode") == []


def test_remote_may_cost_its_daemon_no_more_than_merging_and_executors_little_memory():
    runs = [
        run(1, "plain", 9, executorsPeakMb=1000.0),
        run(1, "lodestone", 8, executorsPeakMb=900.0, serviceCpuPerGb=2.0),
        run(1, "remote", 7, executorsPeakMb=1112.0, serviceCpuPerGb=1.9),
    ]
    (line,) = lines_of(runs, "remote, sort: daemon, CPU s per GB in and out, x lodestone")
    assert line.startswith("kept") and "0.95" in line
    (line,) = lines_of(runs, "remote, sort: executors, peak memory, x plain")
    assert line.startswith("MISSED") and "1.11" in line


def test_remote_takes_a_third_of_plain_sparks_time_where_reads_are_slow():
    runs = [run(1, "plain", 9, disk="throttled"), run(1, "remote", 3.1, disk="throttled")]
    (line,) = lines_of(runs, "remote, throttled sort: wall, x plain")
    assert line.startswith("MISSED") and "(at most 0.33)" in line


def test_small_daemons_are_smaller_than_the_small_jobs_of_the_throttled_disk():
    for name in ("tight", "little"):
        assert sides.BY_NAME[name].daemons_on("plain") == ("1g",)
        assert sides.BY_NAME[name].daemons_on("throttled") == ("32m",)
    assert sides.BY_NAME["two"].daemons_on("throttled") == ("3g", "3g")
    assert sides.BY_NAME["remote"].daemons_on("throttled") == ()


def test_files_of_daemons_leave_memory_like_files_of_executors(tmp_path):
    files = [tmp_path / "local" / "a" / "shuffle_0.data", tmp_path / "service0" / "b" / "0.seg"]
    for file in files:
        file.parent.mkdir(parents=True)
        file.write_bytes(b"x" * 10_000)
    gone = tmp_path / "service1"
    assert disk.drop([tmp_path / "local", tmp_path / "service0", gone]) == files
