# SPDX-License-Identifier: Apache-2.0
"""The jar is in two class paths: its classes may exist twice, and a copy does not know the objects
of the other one."""

import pytest

from harness.paths import USUAL_LINES, plugin_jar
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
@pytest.mark.parametrize("mode", ["merge", "remote"])
def test_a_second_copy_of_the_jar_never_makes_a_wrong_answer_and_the_log_says_where_both_are(
    start_daemon, start_job, plain_answer, spark, mode
):
    job = job_with_two_jars(start_daemon(), spark, mode)
    process = start_job(job)
    if mode == "merge" and not spark.startswith("3.5"):
        # The job continues without services.
        plain = Job(job.name, job.arguments, ONE_EXECUTOR)
        assert process.wait().answer == plain_answer(plain)
    else:
        with pytest.raises(AssertionError, match="two copies of the Lodestone jar") as failed:
            process.wait()
        assert f"of file:{plugin_jar(spark)}" in str(failed.value)
