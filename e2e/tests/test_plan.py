# SPDX-License-Identifier: Apache-2.0
"""`lodestone plan`: what it reads in a log of plain Spark is what Lodestone then does."""

import json
import re
import subprocess

import pytest

from harness.paths import DAEMON, USUAL_LINES
from harness.spark_process import Job

JOBS = [
    ("keyed_rows", {"maps": 7, "partitions": 9, "passes": 2}),
    ("word_count", {"maps": 1}),
    ("word_count", {}),
    ("sql_aggregate", {}),
    ("exchange_used_twice", {}),
]
ADAPTIVE = {
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.adaptive.autoBroadcastJoinThreshold": "-1",
}
# What adaptive execution makes of the reads of a join.
READS = {
    "coalesced": {},
    "skew": {
        "spark.sql.shuffle.partitions": "8",
        "spark.sql.adaptive.skewJoin.skewedPartitionFactor": "2",
        "spark.sql.adaptive.skewJoin.skewedPartitionThresholdInBytes": "200k",
        "spark.sql.adaptive.advisoryPartitionSizeInBytes": "200k",
        "spark.sql.adaptive.coalescePartitions.enabled": "false",
    },
}


def planned(log, *more: str) -> str:
    command = [DAEMON, "plan", "--event-log", log, *more]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def logged_in(logs) -> dict[str, str]:
    return {"spark.eventLog.enabled": "true", "spark.eventLog.dir": logs.as_uri()}


@pytest.mark.lines(*USUAL_LINES, seldom=("3.5",))
def test_a_log_of_plain_spark_has_the_blocks_that_lodestone_then_merges(
    start_daemon, start_job, tmp_path
):
    logs = tmp_path / "logs"
    logs.mkdir()
    asked = Job("one_after_another", {"jobs": JOBS}, conf=logged_in(logs), is_stock=True)
    answer = start_job(asked).wait().answer
    # Spark 4 writes a rolling log, compressed with zstd; Spark 3.5 one file.
    (log,) = logs.iterdir()
    plan = json.loads(planned(log, "--json"))["shuffles"]
    conf = {"spark.lodestone.services": start_daemon().host_port}
    outcome = start_job(Job("one_after_another", {"jobs": JOBS}, conf=conf)).wait()
    assert outcome.answer == answer
    done = sorted(outcome.report["shuffles"], key=lambda one: one["shuffleId"])
    assert len(plan) == len(done) == len(JOBS)
    assert all(one["blocksAreExact"] for one in plan)
    for ahead, real in zip(plan, done, strict=True):
        assert (ahead["maps"], ahead["partitions"]) == (real["maps"], real["partitions"])
        assert ahead["mergeReason"] == next(iter(real["reasons"]), None)
        if ahead["merge"] == "leave":
            assert real["state"] == "plain"
            continue
        assert ahead["blocks"] == real["blocksPushed"]
        assert ahead["reads"] == real["mergedBlocksRead"]
        assert ahead["chunks"] == real["chunksRead"]
        assert ahead["encoded"] == (real["format"] == "encoded-rows-1")
        if not ahead["encoded"]:
            assert set(ahead["pushedBytes"].values()) == {real["bytesPushed"]}
    page = planned(log)
    assert "Of 5 shuffles mode auto, the default, would merge none" in page, page
    assert re.search(r"FEW_BLOCKS +4 ", page), page


@pytest.mark.parametrize("read", READS)
def test_the_blocks_of_shuffles_that_adaptive_execution_reads_otherwise_are_in_the_range(
    start_daemon, start_job, tmp_path, read
):
    logs = tmp_path / "logs"
    logs.mkdir()
    conf = ADAPTIVE | READS[read]
    asked = Job("skewed_join", conf=conf | logged_in(logs), is_stock=True)
    answer, how = start_job(asked).wait().answer
    assert how[read]
    (log,) = logs.iterdir()
    plan = json.loads(planned(log, "--json"))["shuffles"]
    conf = conf | {"spark.lodestone.services": start_daemon().host_port}
    outcome = start_job(Job("skewed_join", conf=conf)).wait()
    assert outcome.answer[0] == answer
    done = sorted(outcome.report["shuffles"], key=lambda one: one["shuffleId"])
    assert len(plan) == len(done)
    for ahead, real in zip(plan, done, strict=True):
        assert (ahead["maps"], ahead["partitions"]) == (real["maps"], real["partitions"])
        assert ahead["merge"] == ("merge" if real["state"] == "merged" else "leave")
        if real["state"] == "merged":
            assert ahead["leastBlocks"] <= real["blocksPushed"] <= ahead["blocks"]
            assert ahead["leastChunks"] <= real["chunksRead"] <= ahead["chunks"]
    # Readers took several blocks at a time, or ranges of maps: the number is no count.
    assert sum(not one["blocksAreExact"] for one in plan) >= 1
    # The keys are spread, so each block that can be there is there.
    assert sum(one["blocks"] for one in plan if one["merge"] == "merge") == sum(
        one["blocksPushed"] for one in done
    )


def test_a_log_of_lodestone_is_no_log_to_plan_from(start_daemon, start_job, tmp_path):
    logs = tmp_path / "logs"
    logs.mkdir()
    conf = {"spark.lodestone.services": start_daemon().host_port, **logged_in(logs)}
    start_job(Job("word_count", conf=conf)).wait()
    (log,) = logs.iterdir()
    command = [DAEMON, "plan", "--event-log", log]
    refused = subprocess.run(command, check=False, capture_output=True, text=True)
    assert refused.returncode == 1
    assert "LodestoneShuffleManager" in refused.stderr and "explain" in refused.stderr
