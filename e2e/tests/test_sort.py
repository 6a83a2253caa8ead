# SPDX-License-Identifier: Apache-2.0
"""The Sort Benchmark's records through a merged shuffle, judged as its rules say."""

import random
import subprocess

import pytest
from matrix.sides import Setting
from sorting import page
from sorting.__main__ import SIDES, arguments
from sorting.run import Sort

from harness import jvm
from harness.paths import SORT
from harness.spark_process import Job

RECORDS = 200_000
UNCOMPRESSED = {"spark.shuffle.compress": "false"}
# The other sides run with --all-lines only: they are plain Spark, and these with other settings.
SOME_SIDES = ("auto", "remote")


def fields(*arguments) -> dict[str, str]:
    """Returns the lines that `lodestone-sort` prints. It fails if records are not in order."""
    done = subprocess.run([SORT, *map(str, arguments)], check=True, capture_output=True, text=True)
    return dict(line.split(": ", 1) for line in done.stdout.splitlines() if ": " in line)


def sorting(source, target) -> Job:
    sizes = {"partitions": 12, "split_bytes": 2_000_000}
    return Job(
        "sort_files", {"source": str(source), "target": str(target), **sizes}, conf=UNCOMPRESSED
    )


def test_generated_records_are_all_there_and_in_order(start_job, tmp_path):
    source, target = tmp_path / "source", tmp_path / "target"
    made = fields("generate", RECORDS, source, "--files", 3)
    outcome = start_job(sorting(source, target)).wait()
    assert outcome.answer == {"records": RECORDS, "maps": 9, "partitions": 12}
    judged = fields("validate", target)
    assert (judged["Records"], judged["Checksum"]) == (str(RECORDS), made["Checksum"])
    totals = outcome.report["totals"]
    assert (totals["mergedBlocksRead"], totals["originalsRead"]) == (9 * 12, 0)


def test_keys_that_differ_in_their_last_bytes_only_are_in_order(start_job, tmp_path):
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    dice = random.Random(seed)
    source, target = tmp_path / "source", tmp_path / "target"
    source.mkdir()
    # One prefix of eight bytes has half of the records, and many keys occur twice.
    prefixes = [b"\xff" * 8, *(dice.randbytes(8) for _ in range(20))]
    records = [
        dice.choice(prefixes[: dice.choice((1, 21))]) + dice.randbytes(2) + dice.randbytes(90)
        for _ in range(40_000)
    ]
    (source / "part-00000").write_bytes(b"".join(records))
    start_job(sorting(source, target)).wait()
    sorted_bytes = b"".join(file.read_bytes() for file in sorted(target.glob("part-*")))
    found = [sorted_bytes[i : i + 100] for i in range(0, len(sorted_bytes), 100)]
    assert [record[:10] for record in found] == sorted(record[:10] for record in records)
    assert sorted(found) == sorted(records)


@pytest.mark.lines("4.1")
def test_make_sort_sorts_and_judges(spark, tmp_path, monkeypatch, request):
    # The bench starts its JVMs for long jobs; here they are short.
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", jvm.options(spark))
    sizes = {"executors": 1, "cores": 2, "memory_mb": 1024}
    setting = Setting(spark=spark, network_reads=False, tables=tmp_path, **sizes)
    bench = Sort(setting, tmp_path, disks=1)
    bench.generate(RECORDS)
    for side in SIDES if request.config.getoption("--all-lines") else SOME_SIDES:
        run = bench.once(side)
        print(side, page.sentence(run))
        assert (run["side"], run["records"], run["partitions"]) == (side, RECORDS, 8)
        assert all(run["seconds"][phase] > 0 for phase in ("map", "reduce", "sort", "whole"))


def test_make_sort_compares_all_modes_with_plain_spark_and_its_minute_is_of_mode_auto():
    assert arguments([]).sides == ["plain", "tuned", "auto", "lodestone", "remote"]
    assert arguments(["--minute"]).sides == ["auto"]
    assert arguments(["--minute", "--sides", "remote,plain"]).sides == ["remote", "plain"]


def test_minute_sort_prints_the_phases_of_the_largest_input_in_time():
    tries = [
        {"bytes": size, "fits": fits}
        for size, fits in ((1, True), (9, False), (7, True), (5, True))
    ]
    assert page.fitting(tries) == [tries[2]]
    assert page.fitting([tries[1]]) == []
