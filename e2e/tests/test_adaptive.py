# SPDX-License-Identifier: Apache-2.0
"""Adaptive execution changes what a reduce task reads: several partitions, a range of maps of one,
or whole map outputs."""

import pytest

from harness.paths import EVERY_LINE, NOT_35
from harness.spark_process import ONE_EXECUTOR, Job

ADAPTIVE = {
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.adaptive.autoBroadcastJoinThreshold": "-1",
}
SKEW = {
    "spark.sql.shuffle.partitions": "8",
    "spark.sql.adaptive.skewJoin.skewedPartitionFactor": "2",
    "spark.sql.adaptive.skewJoin.skewedPartitionThresholdInBytes": "200k",
    "spark.sql.adaptive.advisoryPartitionSizeInBytes": "200k",
    "spark.sql.adaptive.coalescePartitions.enabled": "false",
}


@pytest.mark.lines(*EVERY_LINE, seldom=NOT_35)
def test_skew_splits_read_their_maps_from_the_merged_partition(start_job, plain_answer):
    # Here an executor starts the daemon, on each release.
    job = Job("skewed_join", master=ONE_EXECUTOR, conf={**ADAPTIVE, **SKEW})
    outcome = start_job(job).wait()
    assert outcome.answer == plain_answer(job)
    assert outcome.answer[1]["skew"]
    assert outcome.report["totals"]["originalsRead"] == 0
    assert outcome.reasons() == {}


def test_coalesced_partitions_are_read_merged(start_job, plain_answer):
    job = Job("sql_aggregate", {"partitions": 64}, conf=ADAPTIVE)
    outcome = start_job(job).wait()
    assert outcome.answer == plain_answer(job)
    assert outcome.report["totals"]["mergedBlocksRead"] > 0
    assert outcome.reasons() == {}


def test_a_local_read_takes_whole_map_outputs_and_says_so(start_job, plain_answer):
    job = Job(
        "local_read", conf={**ADAPTIVE, "spark.sql.adaptive.autoBroadcastJoinThreshold": "1m"}
    )
    outcome = start_job(job).wait()
    assert outcome.answer == plain_answer(job)
    assert outcome.answer[1]["local"]
    # The last exchange, of the one sum, has one map.
    assert outcome.reasons().keys() == {"LOCAL_MAP_READ", "SINGLE_MAP"}
    assert outcome.report["totals"]["originalsRead"] == outcome.reasons()["LOCAL_MAP_READ"]


# Mode remote switches local reads off, but a user can set the key.
LOCAL = {
    "spark.sql.adaptive.autoBroadcastJoinThreshold": "1m",
    "spark.sql.adaptive.localShuffleReader.enabled": "true",
}


@pytest.mark.parametrize(
    ("name", "arguments", "conf", "what"),
    [
        ("skewed_join", {}, SKEW, "skew"),
        ("sql_aggregate", {"partitions": 64}, {}, None),
        ("local_read", {}, LOCAL, "local"),
    ],
    ids=["skew", "coalesced", "local"],
)
def test_adaptive_reads_of_a_remote_shuffle_are_served_by_services_alone(
    name, arguments, conf, what, start_daemon, start_job, plain_answer
):
    remote = {
        "spark.lodestone.mode": "remote",
        "spark.lodestone.services": start_daemon().host_port,
    }
    job = Job(name, arguments, conf={**ADAPTIVE, **conf, **remote})
    outcome = start_job(job).wait()
    assert outcome.answer == plain_answer(job)
    assert what is None or outcome.answer[1][what]
    totals = outcome.report["totals"]
    assert totals["remote"] == totals["shuffles"] > 0
    assert totals["originalsRead"] == 0
    assert outcome.reasons() == {}
