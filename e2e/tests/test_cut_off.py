# SPDX-License-Identifier: Apache-2.0
"""Two hosts have an executor each, and a third host has a service: one of the executors can no
longer reach the service, the driver can."""

import subprocess

import pytest

from harness.cluster import Cluster
from harness.hosts import separate_hosts
from harness.spark_process import BOTH_EXECUTORS, Job

MAPS, PARTITIONS, PASSES = 6, 8, 8
PORT = 7337


@pytest.fixture
def network():
    """Creates the driver's host, two hosts for executors, and one for the service."""
    with separate_hosts(3) as hosts:
        yield hosts


def has_read_twice(cluster: Cluster) -> bool:
    """Returns whether the stages 1 and 3 have read: the maps run in stage 0, and never again."""
    logs = cluster.folder.glob("worker-*/app-*/*/stderr")
    return any("in stage 5.0" in log.read_text(errors="replace") for log in logs)


def test_a_reader_that_cannot_reach_a_healthy_service_runs_no_map_again(
    spark, network, start_daemon, start_job, plain_answer, tmp_path
):
    driver, *workers, apart = network
    start_daemon(host=apart, port=PORT)
    cluster = Cluster(spark, tmp_path / "cluster", driver, workers)
    try:
        conf = {
            "spark.lodestone.mode": "remote",
            "spark.lodestone.services": f"{apart.address}:{PORT}",
            # Readers wait for the service six times as long.
            "spark.lodestone.request.timeout": "500ms",
        }
        arguments = {"maps": MAPS, "partitions": PARTITIONS, "passes": PASSES}
        job = Job("keyed_rows", arguments, cluster.master, conf | BOTH_EXECUTORS, driver)
        running = start_job(job)
        running.wait_until(lambda: has_read_twice(cluster), "all is read twice")
        cut = ["ip", "route", "add", "unreachable", f"{apart.address}/32"]
        subprocess.run([*workers[0].enter, *cut], check=True)
        outcome = running.wait()
    finally:
        cluster.stop()
    assert outcome.answer == plain_answer(job)
    # If the outputs were lost, there would be a reason for that too, and one for each run.
    assert list(outcome.reasons()) == ["READER_CUT_OFF"], outcome.reasons()
    assert "the task is run again" in outcome.log
