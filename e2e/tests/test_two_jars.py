# SPDX-License-Identifier: Apache-2.0
"""The jar is in two class paths: its classes may exist twice, and a copy does not know the objects
of the other one."""

import pytest

from harness.paths import NOT_41, USUAL_LINES, plugin_jar
from harness.spark_process import ONE_EXECUTOR, Job


def job_with_two_jars(daemon, spark, mode) -> Job:
    conf = {
        "spark.jars": str(plugin_jar(spark)),
        "spark.executor.userClassPathFirst": "true",
        "spark.lodestone.services": daemon.host_port,
        "spark.lodestone.mode": mode,
    }
    return Job("sql_aggregate", {"rows": 1000, "partitions": 4}, ONE_EXECUTOR, conf)


# On 3.5 an executor's shuffle manager comes from its own class path, and a shuffle's handle from
# the user's jars. On 4.x both come from the user's jars, and the driver's messages from the class
# path.
@pytest.mark.lines(*USUAL_LINES)
def test_a_second_copy_of_the_jar_never_makes_a_wrong_answer(
    start_daemon, start_job, plain_answer, spark
):
    job = job_with_two_jars(start_daemon(), spark, "merge")
    process = start_job(job)
    if spark.startswith("3.5"):
        assert_the_log_says_where_both_are(process, spark)
    else:
        # The job continues without services.
        plain = Job(job.name, job.arguments, ONE_EXECUTOR)
        assert process.wait().answer == plain_answer(plain)


@pytest.mark.lines(*USUAL_LINES, seldom=NOT_41)
def test_a_second_copy_of_the_jar_ends_a_remote_job_and_the_log_says_where_both_are(
    start_daemon, start_job, spark
):
    process = start_job(job_with_two_jars(start_daemon(), spark, "remote"))
    assert_the_log_says_where_both_are(process, spark)


def assert_the_log_says_where_both_are(process, spark):
    with pytest.raises(AssertionError, match="two copies of the Lodestone jar") as failed:
        process.wait()
    assert f"of file:{plugin_jar(spark)}" in str(failed.value)
