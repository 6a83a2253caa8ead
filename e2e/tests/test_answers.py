# SPDX-License-Identifier: Apache-2.0
"""Jobs of many kinds give plain Spark's answer, and are really merged."""

import pytest

from harness.certificate import certificate
from harness.paths import EVERY_LINE, NOT_41, SELDOM, USUAL_LINES
from harness.spark_process import IN_THE_DRIVER, ONE_EXECUTOR, TWO_EXECUTORS, Job

ESSENTIAL = [("keyed_rows", {}), ("sql_aggregate", {})]
MORE = [("word_count", {}), ("sql_aggregate", {"partitions": 250})]


@pytest.fixture
def assert_merged(start_daemon, start_job, plain_answer):
    """Checks that the answers are plain Spark's, and that every block of each shuffle was read
    merged."""

    def check(jobs: list, master: str, conf: dict | None = None) -> None:
        services = {"spark.lodestone.services": start_daemon().host_port}
        job = Job("one_after_another", {"jobs": jobs}, master, {**services, **(conf or {})})
        outcome = start_job(job).wait()
        assert outcome.answer == plain_answer(job)
        shuffles = outcome.report["shuffles"]
        assert len(shuffles) == len(jobs)
        assert all(shuffle["mergedBlocksRead"] > 0 for shuffle in shuffles)
        assert outcome.report["totals"]["originalsRead"] == 0

    return check


@pytest.mark.lines(*EVERY_LINE, seldom=SELDOM)
def test_every_release_reads_rdd_and_sql_shuffles_merged(assert_merged):
    assert_merged(ESSENTIAL, TWO_EXECUTORS)


@pytest.mark.lines(*USUAL_LINES, seldom=NOT_41)
def test_the_answer_is_plain_sparks_and_blocks_were_read_merged(assert_merged):
    assert_merged(MORE, IN_THE_DRIVER)


def test_blocks_that_spark_encrypts_are_read_merged(assert_merged):
    assert_merged(ESSENTIAL, TWO_EXECUTORS, {"spark.io.encryption.enabled": "true"})


# A serializer that cannot be merged is tested on the JVM side: Spark takes Kryo for the pairs of a
# Python RDD, whatever spark.serializer says.
LEFT_TO_SPARK = {
    "SPARK_PUSH": {"spark.shuffle.push.enabled": "true"},
    "OLD_FETCH_PROTOCOL": {"spark.shuffle.useOldFetchProtocol": "true"},
    "CIPHER_UNKNOWN": {
        "spark.authenticate": "true",
        "spark.authenticate.secret": "not-a-secret",
        "spark.authenticate.enableSaslEncryption": "true",
    },
}


# docs/compatibility.md names the releases.
@pytest.mark.lines(*USUAL_LINES, seldom=NOT_41)
@pytest.mark.parametrize("reason", LEFT_TO_SPARK)
def test_a_shuffle_that_cannot_be_merged_is_left_to_spark_with_its_reason(
    reason, start_daemon, start_job, plain_answer
):
    daemon = start_daemon()
    conf = {**LEFT_TO_SPARK[reason], "spark.lodestone.services": daemon.host_port}
    job = Job("keyed_rows", master=ONE_EXECUTOR, conf=conf)
    outcome = start_job(job).wait()
    assert outcome.answer == plain_answer(job)
    assert reason in outcome.reasons()
    assert outcome.report["totals"]["blocksPushed"] == 0


@pytest.mark.lines("4.1")
def test_a_shuffle_that_spark_would_send_over_tls_is_not_sent_in_the_clear(
    start_daemon, start_job, plain_answer, tmp_path
):
    tls = certificate(tmp_path).spark
    services = {"RPC_ENCRYPTION": "", "NO_SERVICE": start_daemon().host_port}
    for reason, service in services.items():
        job = Job(
            "keyed_rows", master=ONE_EXECUTOR, conf={**tls, "spark.lodestone.services": service}
        )
        outcome = start_job(job).wait()
        assert outcome.answer == plain_answer(job)
        assert reason in outcome.reasons()
        assert outcome.report["totals"]["blocksPushed"] == 0
