# SPDX-License-Identifier: Apache-2.0
"""Fixtures: daemons that end with the test, gates, and plain Spark's answers (one for each job)."""

import hashlib
import json
import os

import pytest

import harness.freezable_disk
import harness.small_disk
from harness.cluster import Cluster
from harness.daemon import Daemon, free_port, wait_until
from harness.gates import Gates
from harness.paths import SPARK_LINES, USUAL_LINES
from harness.plain import PlainSpark, question
from harness.spark_process import Job, SparkProcess
from harness.stuck import story_of

# The number of processes that share the tests of a line.
PROCESSES = {"3.5": 2, "4.1": 8}
JOBS = pytest.StashKey[list[SparkProcess]]()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Leaves out tests that run seldom. Makes one process run the tests of a line, so that it uses
    its driver again, and starts its plain Spark once. Several share the lines with most tests, by
    file. This hook comes first, because pytest-xdist looks at the marks in the same hook."""
    if not config.getoption("--all-lines"):
        items[:] = [item for item in items if not item.get_closest_marker("seldom")]
    for item in items:
        line = getattr(item, "callspec", None) and item.callspec.params.get("spark")
        if line:
            parts = PROCESSES.get(line, 1)
            part = sum(item.path.stem.encode()) % parts
            item.add_marker(pytest.mark.xdist_group(f"{line}-{part}"))


def pytest_collection_finish(session):
    """Checks that the ids of tests name their groups: without groups each test would start Spark
    again, which nothing but the time would show."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        for item in session.items:
            if item.get_closest_marker("xdist_group") and "@" not in item.nodeid:
                raise pytest.UsageError("this pytest and pytest-xdist do not keep groups together")


def pytest_addoption(parser):
    help_text = "run each test on all of its lines of Spark, which takes longer"
    parser.addoption("--all-lines", action="store_true", help=help_text)


def pytest_terminal_summary(terminalreporter):
    """Prints what tests measured. None of them has an opinion of it."""
    for report in terminalreporter.getreports("passed"):
        for what, measured in report.user_properties:
            terminalreporter.write_line(f"{measured}: {what}")


def pytest_generate_tests(metafunc):
    """Runs a test of Spark once on each line that its mark `lines` names, but on lines that are
    `seldom` only with `--all-lines`. A test without the mark runs on one of the usual lines, by its
    name, so that `make test` has about as many of them on each line."""
    if "spark" in metafunc.fixturenames:
        mark = metafunc.definition.get_closest_marker("lines")
        is_for_all = metafunc.config.getoption("--all-lines")
        if mark:
            seldom = () if is_for_all else mark.kwargs.get("seldom", ())
            lines = [line for line in mark.args if line not in seldom]
        elif is_for_all:
            lines = USUAL_LINES
        else:
            lines = [USUAL_LINES[sum(metafunc.function.__name__.encode()) % len(USUAL_LINES)]]
        metafunc.parametrize("spark", lines, indirect=True, scope="session")


def pytest_exception_interact(node, report):
    """Adds the state of its jobs to the report of a test that fails."""
    for job in node.stash.get(JOBS, []):
        report.sections.append(("the state of a job", story_of(job)))


@pytest.fixture(scope="session")
def spark(request) -> str:
    """The Spark release under test."""
    return SPARK_LINES[request.param]


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
def small_disk(tmp_path):
    """Mounts a file system of one megabyte."""
    with harness.small_disk.small_disk(tmp_path / "small", megabytes=1) as directory:
        yield directory


@pytest.fixture
def freezable_disk(tmp_path):
    """Mounts a disk that the test can freeze."""
    with harness.freezable_disk.freezable_disk(tmp_path / "freezable", megabytes=1024) as disk:
        yield disk


@pytest.fixture
def two_hosts(shared_cluster):
    """Returns a cluster with workers on two hosts: Spark starts no copy of a task beside the task
    itself. No other job is on it."""
    wait_until(lambda: not shared_cluster.executors(), "the end of the job before", timeout_s=60)
    return shared_cluster


@pytest.fixture
def service_on_each_host(start_daemon, two_hosts):
    """Starts one daemon on each host, on the same port: Spark takes each for the external shuffle
    service of its host."""
    port = free_port()
    roots = ("--executor-root", str(two_hosts.folder))
    return [
        start_daemon(f"service-{host.address}", host=host, port=port, extra=roots)
        for host in two_hosts.hosts
    ]


@pytest.fixture(scope="session")
def shared_cluster(spark, tmp_path_factory):
    """Starts a cluster for many tests: it takes longer to start than most jobs take to run."""
    cluster = Cluster(spark, tmp_path_factory.mktemp("two-hosts") / "cluster")
    yield cluster
    cluster.stop()


@pytest.fixture
def gates():
    """Gates at which tasks wait for the test."""
    opened = Gates()
    yield opened
    opened.close()


@pytest.fixture
def start_job(spark, request):
    """Starts a job on Lodestone, and kills it if it still runs at the end of the test."""
    started = request.node.stash[JOBS] = []

    def start(job: Job) -> SparkProcess:
        process = SparkProcess(spark, job)
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()


@pytest.fixture(scope="session")
def plain_answers(tmp_path_factory):
    """Returns a folder that the processes of one test run share."""
    shared = tmp_path_factory.getbasetemp()
    shared = shared.parent if "PYTEST_XDIST_WORKER" in os.environ else shared
    folder = shared / "plain-answers"
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture(scope="session")
def plain_spark(tmp_path_factory):
    """Starts a plain Spark of each release when a test needs it; they stay up until this process
    has run its last test."""
    started: dict[str, PlainSpark] = {}

    def of(version: str) -> PlainSpark:
        if version not in started:
            started[version] = PlainSpark(version, tmp_path_factory.mktemp(f"plain-{version}"))
        return started[version]

    yield of
    for plain in started.values():
        plain.stop()


@pytest.fixture
def plain_answer(spark, plain_spark, plain_answers, tmp_path):
    """Returns plain Spark's answer to the same job."""

    def answer(job: Job):
        asked = question(job)
        key = json.dumps([spark, asked], sort_keys=True)
        kept = plain_answers / hashlib.sha256(key.encode()).hexdigest()
        if not kept.exists():
            fresh = tmp_path / "plain-answer"
            fresh.write_text(json.dumps(plain_spark(spark).answer(asked)))
            fresh.rename(kept)
        return json.loads(kept.read_text())

    return answer
