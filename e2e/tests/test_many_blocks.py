# SPDX-License-Identifier: Apache-2.0
"""Shuffles with very many blocks, for which merging exists."""

import pytest

from harness.spark_process import TWO_EXECUTORS, Job

MAPS, PARTITIONS = 250, 400


@pytest.mark.lines("4.1")
def test_mode_auto_merges_a_hundred_thousand_tiny_blocks(start_daemon, start_job, plain_answer):
    daemon = start_daemon()
    job = Job(
        "many_tiny_blocks",
        {"maps": MAPS, "partitions": PARTITIONS},
        TWO_EXECUTORS,
        conf={"spark.lodestone.services": daemon.host_port, "spark.lodestone.mode": "auto"},
    )
    outcome = start_job(job).wait()
    assert outcome.answer == plain_answer(job)
    assert outcome.reasons() == {}
    totals = outcome.report["totals"]
    assert totals["mergedBlocksRead"] == MAPS * PARTITIONS
    assert totals["chunksRead"] == PARTITIONS
    assert totals["pushRequests"] == MAPS
