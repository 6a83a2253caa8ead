# SPDX-License-Identifier: Apache-2.0
"""Fixtures: daemons that are gone after the test, gates, and plain Spark's answers (asked once per job)."""

import json

import pytest

from harness.cluster import Cluster
from harness.daemon import Daemon
from harness.gates import Gates
from harness.paths import SPARK_LINES
from harness.spark_process import Job, SparkProcess, run

_plain_answers: dict[str, object] = {}


@pytest.fixture(params=SPARK_LINES.values(), ids=SPARK_LINES.keys())
def spark(request) -> str:
    """The Spark release under test."""
    return request.param


@pytest.fixture
def start_daemon(tmp_path):
    """Starts daemons that stop with the test."""
    started: list[Daemon] = []

    def start(name: str = "service", directory=None, **options) -> Daemon:
        daemon = Daemon(directory or tmp_path / name, **options)
        started.append(daemon)
        return daemon

    yield start
    for daemon in started:
        daemon.stop()


@pytest.fixture
def two_hosts(spark, tmp_path):
    """A cluster with workers on two hosts: Spark starts no copy of a task beside the task itself."""
    cluster = Cluster(spark, tmp_path / "cluster")
    yield cluster
    cluster.stop()


@pytest.fixture
def gates():
    """Places where tasks wait for the test."""
    opened = Gates()
    yield opened
    opened.close()


@pytest.fixture
def start_job(spark):
    """Starts a job on Lodestone; one that is still running at the end of the test is killed."""
    started: list[SparkProcess] = []

    def start(job: Job) -> SparkProcess:
        process = SparkProcess(spark, job, lodestone=True)
        started.append(process)
        return process

    yield start
    for process in started:
        if process.process.poll() is None:
            process.process.kill()
            process.process.wait()


@pytest.fixture
def plain_answer(spark):
    """Plain Spark's answer to the same job, without gates."""

    def answer(job: Job):
        arguments = {k: v for k, v in job.arguments.items() if k != "gates"}
        ungated = Job(job.name, arguments, "local[2]", job.conf)
        key = json.dumps([spark, job.name, arguments])
        if key not in _plain_answers:
            _plain_answers[key] = run(spark, ungated, lodestone=False).answer
        return _plain_answers[key]

    return answer
