# SPDX-License-Identifier: Apache-2.0
"""Jobs of many kinds give plain Spark's answer, and are really merged."""

import pytest

from harness.spark_process import Job, run

MERGED = [
    Job("word_count"),
    Job("keyed_rows"),
    Job("keyed_rows", {"maps": 40, "partitions": 200, "rows": 40000}),
    Job("sql_aggregate"),
]


@pytest.mark.parametrize("job", MERGED, ids=lambda job: f"{job.name}-{len(job.arguments)}")
def test_the_answer_is_plain_sparks_and_blocks_were_read_merged(
    job, start_daemon, start_job, plain_answer
):
    daemon = start_daemon()
    job = Job(job.name, job.arguments, conf={"spark.lodestone.services": daemon.host_port})
    outcome = start_job(job).wait()
    assert outcome.answer == plain_answer(job)
    assert outcome.report["totals"]["mergedBlocksRead"] > 0
    assert outcome.report["totals"]["originalsRead"] == 0


# A serializer that cannot be merged is tested on the JVM side: Spark takes Kryo for the pairs of a
# Python RDD, whatever spark.serializer says.
LEFT_TO_SPARK = {
    "SPARK_PUSH": {"spark.shuffle.push.enabled": "true"},
    "IO_ENCRYPTION": {"spark.io.encryption.enabled": "true"},
    "AUTHENTICATION": {
        "spark.authenticate": "true",
        "spark.authenticate.secret": "not-a-secret",
    },
}


@pytest.mark.parametrize("reason", LEFT_TO_SPARK)
def test_a_shuffle_that_cannot_be_merged_is_left_to_spark_with_its_reason(
    reason, start_daemon, start_job, plain_answer
):
    daemon = start_daemon()
    conf = {**LEFT_TO_SPARK[reason], "spark.lodestone.services": daemon.host_port}
    outcome = start_job(Job("keyed_rows", conf=conf)).wait()
    assert outcome.answer == plain_answer(Job("keyed_rows"))
    assert reason in outcome.reasons()
    assert outcome.report["totals"]["blocksPushed"] == 0


def test_the_newest_pyspark_reads_merged_blocks_with_the_jar_for_4_1(start_daemon):
    daemon = start_daemon()
    job = Job("keyed_rows", conf={"spark.lodestone.services": daemon.host_port})
    outcome = run("4.3.0", job, lodestone=True)
    assert outcome.answer == run("4.3.0", job, lodestone=False).answer
    assert outcome.report["totals"]["originalsRead"] == 0
    assert outcome.report["totals"]["mergedBlocksRead"] > 0
