# SPDX-License-Identifier: Apache-2.0
"""Two hosts have an executor and a service each: the fraction of bytes that readers get from their
own host."""

from contextlib import ExitStack

import pytest

from harness.cluster import Cluster
from harness.daemon import Daemon, services_of
from harness.hosts import separate_hosts
from harness.paths import NOT_35, NOT_41, USUAL_LINES
from harness.spark_process import BOTH_EXECUTORS, Job, Outcome
from tpch.small import ADAPTIVE, small_tables

MAPS, PARTITIONS, ROWS = 6, 64, 60000
PORT = 7337


@pytest.fixture(scope="module")
def network(spark, tmp_path_factory):
    """Creates the driver's host, a cluster, and the services beside its executors."""
    folder = tmp_path_factory.mktemp("nearness")
    with separate_hosts(2) as (driver, *hosts), ExitStack() as started:
        daemons = []
        for host in hosts:
            daemons.append(Daemon(folder / host.address, host, PORT))
            started.callback(daemons[-1].stop)
        cluster = Cluster(spark, folder / "cluster", driver, hosts)
        started.callback(cluster.stop)
        yield driver, cluster, daemons


@pytest.fixture
def run(network, start_job, plain_answer):
    """Runs a job with one replica or two on two hosts; checks that the answer is plain Spark's."""
    driver, cluster, daemons = network

    def start(replicas: int) -> Outcome:
        conf = {
            "spark.lodestone.mode": "remote",
            "spark.lodestone.services": services_of(daemons),
            "spark.lodestone.replicas": str(replicas),
        }
        arguments = {"maps": MAPS, "partitions": PARTITIONS, "rows": ROWS}
        job = Job("keyed_rows", arguments, cluster.master, conf | BOTH_EXECUTORS, driver)
        outcome = start_job(job).wait()
        assert outcome.answer == plain_answer(job)
        return outcome

    return start


def local_fraction(outcome: Outcome) -> float:
    totals = outcome.report["totals"]
    return totals["localChunkBytes"] / totals["chunkBytes"]


def test_with_a_replica_on_each_host_no_reader_uses_the_network(run):
    assert local_fraction(run(replicas=2)) == 1


@pytest.mark.seldom
def test_with_one_replica_readers_find_a_part_of_the_partitions_on_their_host(run):
    fraction = local_fraction(run(replicas=1))
    assert 0.25 < fraction < 0.75, fraction


QUERIES = ["q03", "q18"]
# On a busy machine a task of a few milliseconds may wait longer for its host than Spark allows.
PATIENT = {**ADAPTIVE, "spark.locality.wait": "60s"}


@pytest.fixture
def query(network, start_job, plain_answer):
    """Runs queries of TPC-H; checks that the answers are plain Spark's. The services are there from
    the start: if the plugin has to start them, the first shuffle may get one of both only."""
    driver, cluster, daemons = network

    def start(mode: str, near: bool) -> Outcome:
        conf = {
            "spark.lodestone.mode": mode,
            "spark.lodestone.services": services_of(daemons),
            "spark.lodestone.nearReads": str(near).lower(),
        }
        conf |= PATIENT | BOTH_EXECUTORS
        arguments = {"tables": small_tables(), "queries": QUERIES}
        outcome = start_job(Job("shipments", arguments, cluster.master, conf, driver)).wait()
        assert outcome.answer == plain_answer(Job("shipments", arguments, conf=conf))
        return outcome

    return start


@pytest.mark.lines(*USUAL_LINES, seldom=NOT_35)
def test_queries_read_nearly_all_merged_blocks_from_the_host_where_they_run(query):
    assert local_fraction(query("merge", near=True)) > 0.9


@pytest.mark.lines(*USUAL_LINES, seldom=NOT_41)
def test_queries_read_nearly_all_of_a_remote_shuffle_from_the_host_where_they_run(query):
    assert local_fraction(query("remote", near=True)) > 0.9


@pytest.mark.seldom
def test_without_near_reads_queries_find_a_part_of_their_data_on_their_host(query):
    assert 0.2 < local_fraction(query("remote", near=False)) < 0.8
