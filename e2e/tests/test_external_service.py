# SPDX-License-Identifier: Apache-2.0
"""Stock Spark, without the plugin and its jar, uses a daemon as its external shuffle service.

Each job first runs its map tasks. Then their executors end, so that the blocks are read from the
service, or from the directories that it names. No map task may run again for this.

Spark's own push-based shuffle needs the master `yarn`, or `spark.testing`, and a scheduler that
names the services: the test does that in the place of YARN's.
"""

import os
import re
import signal
from pathlib import Path

import pytest

from harness.certificate import certificate
from harness.daemon import wait_until
from harness.paths import EVERY_LINE, NOT_35, NOT_41, USUAL_LINES
from harness.processes import executors_of
from harness.secrets import AES, GCM, KINDS, secret_file
from harness.spark_process import BOTH_EXECUTORS, ONE_EXECUTOR, TWO_EXECUTORS, Job

MAPS, PARTITIONS = 6, 8
BLOCKS = MAPS * PARTITIONS
# By default executors on one host open the files of each other, except in a local cluster.
FROM_THE_DISK = {"spark.shuffle.readHostLocalDisk": "true"}
THROUGH_SERVICES = {"spark.shuffle.readHostLocalDisk": "false"}
# One task of the queries reads all partitions, in one request.
IN_ONE_REQUEST = {
    "spark.reducer.maxSizeInFlight": "512m",
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.adaptive.coalescePartitions.parallelismFirst": "false",
}
# 70 maps with blocks for nearly all of 1000 partitions.
GROUP_MAPS, GROUPS = 70, 5000
MANY_BLOCKS = 65_536
# As the harness sets it.
QUERY_PARTITIONS = 32
READS = ("read-rows", "read-blocks", "read-batches")
NO_IDLE_EXECUTORS = {
    "spark.dynamicAllocation.enabled": "true",
    "spark.dynamicAllocation.minExecutors": "0",
    "spark.dynamicAllocation.initialExecutors": "2",
    "spark.dynamicAllocation.maxExecutors": "2",
    "spark.dynamicAllocation.executorIdleTimeout": "1s",
    "spark.dynamicAllocation.cachedExecutorIdleTimeout": "1s",
}
BLOCKS_BELONG_TO_THE_SERVICE = {
    "spark.shuffle.service.fetch.rdd.enabled": "true",
    "spark.shuffle.service.removeShuffle": "true",
}
SPARKS_OWN_PUSH = {
    "spark.testing": "true",
    "spark.shuffle.push.enabled": "true",
    # Spark does not wait for pushes of small shuffles otherwise.
    "spark.shuffle.push.minShuffleSizeToWait": "0",
}


def stock(name: str, port: int, master: str, arguments: dict, **conf: str) -> Job:
    service = {"spark.shuffle.service.enabled": "true", "spark.shuffle.service.port": str(port)}
    return Job(name, arguments, master, {**service, **conf}, is_stock=True)


def kill_executors(running) -> None:
    for executor in executors_of(running.process.pid):
        os.kill(executor, signal.SIGKILL)


def assert_no_task_ran_again(outcome, gates):
    assert gates.map_runs(MAPS) == [1] * MAPS
    assert {attempt for attempt, _ in outcome.stages} == {0}


class Reads:
    """The streams and chunks that daemons have sent since the last look."""

    def __init__(self, *daemons):
        self._daemons = daemons
        self._before = self._counts()

    def look(self) -> dict[str, int]:
        self._last = None
        now = wait_until(self._settled, "chunks are counted")
        before, self._before = self._before, now
        return {name: now[name] - before[name] for name in now}

    def _settled(self):
        """A daemon counts a chunk after its last byte is sent: the client may be sooner."""
        last, self._last = self._last, self._counts()
        return self._last if last == self._last else None

    def _counts(self) -> dict[str, int]:
        counts = [daemon.counts() for daemon in self._daemons]
        return {name: sum(one[f"fetch_{name}"] for one in counts) for name in ("streams", "chunks")}


@pytest.fixture
def read_after_a_kill(start_daemon, start_job, gates, plain_answer):
    """Runs the map tasks of two shuffles on one executor, kills it, and reads them. Returns the
    streams and chunks of each read."""

    def read(sizes, flags=(), **conf):
        daemon = start_daemon(extra=flags)
        arguments = {**sizes, "gates": gates.address}
        conf = {**THROUGH_SERVICES, **IN_ONE_REQUEST, **conf}
        job = stock("read_by_others", daemon.port, ONE_EXECUTOR, arguments, **conf)
        running = start_job(job)
        gates.run_maps(MAPS)
        gates.wait_reached("mapped")
        kill_executors(running)
        reads, seen = Reads(daemon), {}
        for at, what in zip(("mapped", *READS), (*READS, None), strict=True):
            gates.open(at)
            if what:
                gates.wait_reached(what)
                seen[what] = reads.look()
        outcome = running.wait()
        assert outcome.answer == plain_answer(Job(job.name, arguments))
        assert_no_task_ran_again(outcome, gates)
        return seen

    return read


@pytest.mark.lines(*EVERY_LINE, seldom=NOT_35)
def test_blocks_of_a_killed_executor_are_read_also_70000_in_one_request_and_in_batches(
    read_after_a_kill,
):
    # A stream of a codec for each block would take most of the time.
    conf = {"spark.sql.shuffle.partitions": "1000", "spark.shuffle.compress": "false"}
    seen = read_after_a_kill({"group_maps": GROUP_MAPS, "groups": GROUPS}, **conf)
    assert seen["read-rows"] == {"streams": PARTITIONS, "chunks": BLOCKS}
    assert seen["read-blocks"]["streams"] == 1
    assert seen["read-blocks"]["chunks"] > MANY_BLOCKS
    assert seen["read-batches"] == {"streams": 1, "chunks": GROUP_MAPS}


@pytest.mark.seldom
def test_blocks_of_a_killed_executor_are_read_with_the_old_fetch_protocol(read_after_a_kill):
    old = {"spark.shuffle.useOldFetchProtocol": "true"}
    seen = read_after_a_kill({"group_maps": MAPS, "groups": 500}, **old)
    assert seen["read-rows"] == {"streams": PARTITIONS, "chunks": BLOCKS}
    # It has no batches.
    blocks = {"streams": 1, "chunks": MAPS * QUERY_PARTITIONS}
    assert seen["read-blocks"] == seen["read-batches"] == blocks


@pytest.mark.lines(*USUAL_LINES, seldom=NOT_41)
@pytest.mark.parametrize("kind", [pytest.param("sasl", marks=pytest.mark.seldom), "aes"])
def test_blocks_of_a_killed_executor_are_read_by_an_application_that_authenticates(
    kind, read_after_a_kill, tmp_path
):
    sizes, flags = {"group_maps": MAPS, "groups": 500}, ("--secrets", str(secret_file(tmp_path)))
    seen = read_after_a_kill(sizes, flags, **KINDS[kind])
    assert seen["read-rows"] == {"streams": PARTITIONS, "chunks": BLOCKS}


@pytest.mark.seldom
@pytest.mark.lines(*(line for line in EVERY_LINE if line >= "4"))
def test_blocks_of_a_killed_executor_are_read_in_messages_that_cannot_be_changed(
    read_after_a_kill, tmp_path
):
    sizes, flags = {"group_maps": MAPS, "groups": 500}, ("--secrets", str(secret_file(tmp_path)))
    seen = read_after_a_kill(sizes, flags, **GCM)
    assert seen["read-rows"] == {"streams": PARTITIONS, "chunks": BLOCKS}


@pytest.mark.lines("4.1")
@pytest.mark.parametrize(
    "more",
    [pytest.param({}, id="tls"), pytest.param(AES, id="tls-and-aes", marks=pytest.mark.seldom)],
)
def test_blocks_of_a_killed_executor_are_read_over_tls(more, read_after_a_kill, tmp_path):
    made = certificate(tmp_path)
    secrets = ("--secrets", str(secret_file(tmp_path))) if more else ()
    sizes, flags = {"group_maps": MAPS, "groups": 500}, (*made.daemon, "--encrypted-only", *secrets)
    seen = read_after_a_kill(sizes, flags, **made.spark, **more)
    assert seen["read-rows"] == {"streams": PARTITIONS, "chunks": BLOCKS}


def test_blocks_of_killed_executors_are_read_in_directories_that_a_restarted_daemon_names(
    start_daemon, start_job, gates, plain_answer
):
    daemon = start_daemon()
    arguments = {"maps": MAPS, "partitions": PARTITIONS, "passes": 2, "gates": gates.address}
    conf = {**BOTH_EXECUTORS, **FROM_THE_DISK}
    job = stock("keyed_rows", daemon.port, TWO_EXECUTORS, arguments, **conf)
    running = start_job(job)
    gates.run_first_pass(MAPS)
    kill_executors(running)
    daemon.restart()
    gates.open_all()
    outcome = running.wait()
    assert outcome.answer == plain_answer(job)
    assert_no_task_ran_again(outcome, gates)
    assert daemon.counts()["fetch_chunks"] == 0, "executors of one host open files themselves"


@pytest.mark.lines(*EVERY_LINE, seldom=NOT_41)
def test_blocks_of_executors_that_end_or_are_killed_outlive_a_restart_and_are_removed_in_the_end(
    service_on_each_host, two_hosts, start_job, gates, plain_answer
):
    arguments = {"maps": MAPS, "partitions": PARTITIONS, "gates": gates.address}
    port = service_on_each_host[0].port
    conf = {**THROUGH_SERVICES, **NO_IDLE_EXECUTORS, **BLOCKS_BELONG_TO_THE_SERVICE}
    job = stock("kept_and_shuffled", port, two_hosts.master, arguments, **conf)
    running = start_job(job)
    gates.run_maps(MAPS)
    gates.wait_reached("between-0")
    # Dynamic allocation ends the other one.
    os.kill(two_hosts.executors()[0], signal.SIGKILL)
    wait_until(lambda: not two_hosts.executors(), "the end of every executor", timeout_s=60)
    for daemon in service_on_each_host:
        daemon.restart()
    reads = Reads(*service_on_each_host)
    gates.open("between-0")
    gates.wait_reached("between-1")
    # The task that reads the kept rows finds half of them on the disk of its host.
    chunks = BLOCKS + MAPS // 2
    assert reads.look()["chunks"] == chunks
    wait_until(lambda: not two_hosts.executors(), "the end of every executor", timeout_s=60)
    assert block_files(two_hosts.folder) != []
    gates.open("between-1")
    gates.wait_reached("dropped")
    assert block_files(two_hosts.folder) == []
    assert executor_dirs(two_hosts.folder) != []
    gates.open("dropped")
    outcome = running.wait()
    assert outcome.answer == plain_answer(job)
    assert_no_task_ran_again(outcome, gates)
    # The daemon deletes none of them.
    wait_until(lambda: executor_dirs(two_hosts.folder) == [], "Workers delete the directories")


def executor_dirs(folder) -> list[str]:
    """Returns the directories of executors, while Workers may delete them."""
    return [path for path, _, _ in os.walk(folder) if Path(path).name.startswith("blockmgr-")]


def block_files(folder) -> list:
    """Returns the files of shuffles, which are all of one application, and of kept rows."""
    kinds = ("shuffle_*.data", "shuffle_*.index", "rdd_*")
    return [path for kind in kinds for path in folder.rglob(kind)]


def test_a_damaged_block_is_diagnosed_and_its_maps_are_run_again(
    start_daemon, start_job, gates, plain_answer
):
    daemon = start_daemon()
    arguments = {"maps": MAPS, "partitions": PARTITIONS, "passes": 2, "gates": gates.address}
    job = stock("keyed_rows", daemon.port, ONE_EXECUTOR, arguments, **THROUGH_SERVICES)
    running = start_job(job)
    gates.run_first_pass(MAPS)
    change_a_byte(next(running.local_dirs.rglob("shuffle_0_0_0.data")))
    kill_executors(running)
    reads = Reads(daemon)
    gates.open_all()
    outcome = running.wait()
    assert outcome.answer == plain_answer(job)
    # As with Spark's own service.
    assert set(re.findall(r"is corrupted (\w[\w ]*)", outcome.log)) == {"due to DISK_ISSUE"}
    assert gates.map_runs(MAPS) == [2] * MAPS
    assert reads.look()["chunks"] > 0


def change_a_byte(file) -> None:
    """Changes the byte in the middle, which is one of a block's compressed records."""
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 0xFF
    file.write_bytes(data)


def test_blocks_that_stock_spark_pushes_are_read_merged_without_their_originals(
    start_daemon, start_job, gates, plain_answer
):
    daemon = start_daemon()
    # Under another name the host is remote, and merged blocks come through the daemon. Otherwise
    # executors ask it where its files are, and open them.
    mergers = [f"localhost:{daemon.port}", daemon.host_port]
    sizes = {"maps": MAPS, "partitions": PARTITIONS}
    arguments = {**sizes, "mergers": mergers, "gates": gates.address}
    conf = {**BOTH_EXECUTORS, **SPARKS_OWN_PUSH}
    job = stock("pushed_by_spark", daemon.port, TWO_EXECUTORS, arguments, **conf)
    running = start_job(job)
    gates.open_all(but=("between-0",))
    gates.wait_reached("between-0")
    counts = daemon.counts()
    assert counts["merge_segments"] == 2 * BLOCKS
    assert counts["finalize_requests"] == 2
    reads = Reads(daemon)
    originals = list(running.local_dirs.rglob("shuffle_*.data"))
    assert len(originals) == 2 * MAPS
    for original in originals:
        original.unlink()
    gates.open_all()
    outcome = running.wait()
    assert outcome.answer == plain_answer(job)
    assert {attempt for attempt, _ in outcome.stages} == {0}
    assert reads.look()["chunks"] == PARTITIONS
