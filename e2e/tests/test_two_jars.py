# SPDX-License-Identifier: Apache-2.0
"""The jar is in two class paths: its classes may exist twice, and a copy does not know the objects
of the other one."""

import pytest

from harness.paths import NOT_41, USUAL_LINES, plugin_jar
from harness.spark_process import ONE_EXECUTOR, Job

JOB, ARGUMENTS = "sql_aggregate", {"rows": 1000, "partitions": 4}


def job_with_two_jars(daemon, spark, mode) -> Job:
    conf = {
        "spark.jars": str(plugin_jar(spark)),
        "spark.executor.userClassPathFirst": "true",
        "spark.lodestone.services": daemon.host_port,
        "spark.lodestone.mode": mode,
    }
    return Job(JOB, ARGUMENTS, ONE_EXECUTOR, conf)


# On 3.5 an executor's shuffle manager comes from its own class path, and a shuffle's handle from
# the user's jars. On 4.x both come from the user's jars, and read the driver's answers.
@pytest.mark.lines(*USUAL_LINES)
def test_a_second_copy_of_the_jar_never_makes_a_wrong_answer(
    start_daemon, start_job, plain_answer, spark
):
    check(start_job(job_with_two_jars(start_daemon(), spark, "merge")), plain_answer, spark)


@pytest.mark.lines(*USUAL_LINES, seldom=NOT_41)
def test_a_second_copy_of_the_jar_never_makes_a_wrong_answer_of_a_remote_job(
    start_daemon, start_job, plain_answer, spark
):
    check(start_job(job_with_two_jars(start_daemon(), spark, "remote")), plain_answer, spark)


def check(process, plain_answer, spark):
    if spark.startswith("3.5"):
        assert_the_log_says_where_both_are(process, spark)
    else:
        outcome = process.wait()
        assert outcome.answer == plain_answer(Job(JOB, ARGUMENTS, ONE_EXECUTOR))
        assert outcome.reasons() == {}


def assert_the_log_says_where_both_are(process, spark):
    with pytest.raises(AssertionError, match="two copies of the Lodestone jar") as failed:
        process.wait()
    assert f"of file:{plugin_jar(spark)}" in str(failed.value)
