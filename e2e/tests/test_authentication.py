# SPDX-License-Identifier: Apache-2.0
"""Applications that authenticate, and encrypt, are merged and remote like others; services with
secrets serve nobody else; and no secret is where others can read it."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from harness.certificate import certificate
from harness.leaks import assert_kept
from harness.paths import EVERY_LINE, NOT_41, SELDOM, USUAL_LINES, spark_home
from harness.processes import daemons_below, descendants, executors_of
from harness.secrets import AES, GCM, KINDS, SECRET, secret_file
from harness.spark_process import TWO_EXECUTORS, Job

MAPS, PARTITIONS = 6, 8
SINCE_4 = [line for line in EVERY_LINE if line >= "4"]
NOT_43 = [line for line in SINCE_4 if line != "4.3"]


@pytest.fixture
def secrets(tmp_path) -> Path:
    return secret_file(tmp_path)


def job_of(kind: str, service: str | None, mode: str, gates=None) -> Job:
    arguments = {"maps": MAPS, "partitions": PARTITIONS}
    if gates:
        arguments["gates"] = gates.address
    conf = {**(KINDS | {"gcm": GCM})[kind], "spark.lodestone.mode": mode}
    if service:
        conf["spark.lodestone.services"] = service
    return Job("keyed_rows", arguments, TWO_EXECUTORS, conf)


def assert_all_from_services(outcome, mode):
    totals = outcome.report["totals"]
    assert totals["originalsRead"] == 0
    assert totals["mergedBlocksRead"] == MAPS * PARTITIONS
    state = {"merge": "merged", "remote": "remote"}[mode]
    assert [shuffle["state"] for shuffle in outcome.report["shuffles"]] == [state]


@pytest.mark.lines(*USUAL_LINES, seldom=NOT_41)
@pytest.mark.parametrize(
    "kind",
    [pytest.param(kind, marks=pytest.mark.seldom if kind == "aes" else ()) for kind in KINDS],
)
@pytest.mark.parametrize("mode", ["merge", "remote"])
def test_an_application_that_authenticates_is_served_as_any(
    mode, kind, secrets, start_daemon, start_job, plain_answer
):
    daemon = start_daemon(extra=("--secrets", str(secrets)))
    job = job_of(kind, daemon.host_port, mode)
    outcome = start_job(job).wait()
    assert outcome.answer == plain_answer(job)
    assert_all_from_services(outcome, mode)
    assert_kept(SECRET, texts=[outcome.log, outcome.report, daemon.log.read_text()])


@pytest.mark.lines(*EVERY_LINE, seldom=SELDOM)
def test_encrypted_applications_are_served_on_every_release(
    secrets, start_daemon, start_job, plain_answer
):
    daemon = start_daemon(extra=("--secrets", str(secrets), "--encrypted-only"))
    job = job_of("aes", daemon.host_port, "remote")
    outcome = start_job(job).wait()
    assert outcome.answer == plain_answer(job)
    assert_all_from_services(outcome, "remote")


@pytest.mark.lines(*SINCE_4, seldom=NOT_43)
def test_applications_whose_messages_cannot_be_changed_are_served_on_every_release_that_has_them(
    secrets, start_daemon, start_job, plain_answer
):
    daemon = start_daemon(extra=("--secrets", str(secrets), "--encrypted-only"))
    for mode in ["merge", "remote"]:
        job = job_of("gcm", daemon.host_port, mode)
        outcome = start_job(job).wait()
        assert outcome.answer == plain_answer(job)
        assert_all_from_services(outcome, mode)


@pytest.mark.parametrize("mode", ["merge", "remote"])
def test_an_application_with_another_secret_is_left_to_plain_spark(
    mode, secrets, start_daemon, start_job, plain_answer
):
    daemon = start_daemon(extra=("--secrets", str(secrets)))
    secrets.write_text("another")
    job = job_of("aes", daemon.host_port, mode)
    outcome = start_job(job).wait()
    assert outcome.answer == plain_answer(job)
    assert "NO_SERVICE" in outcome.reasons()
    assert outcome.report["totals"]["blocksPushed"] == 0
    assert "authentication failed" in outcome.log.lower()


def begin_with_event_log(start_job, job: Job, logs: Path):
    """Starts a job that writes an event log in a folder of its own, as a text that can be searched:
    Spark 4 compresses it otherwise."""
    logs.mkdir()
    written = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": logs.as_uri(),
        "spark.eventLog.compress": "false",
    }
    return start_job(replace(job, conf=job.conf | written))


def wait_for_the_last_reader(running, gates) -> None:
    """Returns when one reader is left, and waits: executors and daemons are there."""
    for name in [f"map-{i}" for i in range(MAPS)] + ["between-0"]:
        gates.open(name)
    for reduce in range(1, PARTITIONS):
        gates.open(f"reduce-{reduce}")
    gates.wait_reached("reduce-0")


def of_the_test() -> list[int]:
    return [pid for pid in descendants(os.getpid()) if pid != os.getpid()]


def has_secrets_of_the_plugins_daemon(path: Path) -> bool:
    return path.parent.name.endswith(".secrets")


def assert_the_ended_job_has_kept(
    running, outcome, spark, logs: Path, *folders: Path, is_for_it=lambda path: False
) -> None:
    """Looks where a job leaves files that others may read."""
    written = b"".join(path.read_bytes() for path in logs.rglob("*") if path.is_file())
    assert b"spark.authenticate.secret" in written, "the event log has the key, and not the value"
    work = spark_home(spark) / "work" / outcome.report["application"].partition("~")[0]
    assert list(work.rglob("stderr")), "the logs of its executors"
    assert running.local_dirs.is_dir(), "the directories of its executors"
    assert_kept(
        SECRET,
        folders=[running.local_dirs.parent, work, *folders],
        texts=[outcome.log, outcome.report],
        is_for_it=is_for_it,
    )


@pytest.mark.lines(*USUAL_LINES, seldom=NOT_41)
@pytest.mark.parametrize("kind", ["sasl", "aes"])
def test_the_secret_of_an_application_at_a_service_is_where_nobody_else_reads_it(
    kind, secrets, start_daemon, start_job, gates, spark, tmp_path
):
    daemon = start_daemon(extra=("--secrets", str(secrets), "--log-level", "debug"))
    running = begin_with_event_log(
        start_job, job_of(kind, daemon.host_port, "merge", gates), tmp_path / "events"
    )
    wait_for_the_last_reader(running, gates)
    here = [tmp_path, running.local_dirs.parent]
    searched = of_the_test()
    assert {daemon.process.pid, *executors_of(running.process.pid)} <= set(searched)
    kept = assert_kept(SECRET, pids=searched, folders=here, is_for_it=secrets.__eq__)
    assert kept == [secrets]
    gates.open("reduce-0")
    outcome = running.wait()
    assert_all_from_services(outcome, "merge")
    secrets.unlink()
    assert_the_ended_job_has_kept(running, outcome, spark, tmp_path / "events", tmp_path)


@pytest.mark.lines(*USUAL_LINES, seldom=NOT_41)
@pytest.mark.parametrize("kind", ["sasl", "aes"])
def test_the_plugins_own_daemon_gets_the_secret_by_a_file_that_only_its_user_can_read(
    kind, start_job, gates, spark, plain_answer, tmp_path
):
    job = job_of(kind, None, "merge", gates)
    running = begin_with_event_log(start_job, job, tmp_path / "events")
    wait_for_the_last_reader(running, gates)
    [daemon] = daemons_below(running.local_dirs)
    holders = assert_kept(
        SECRET,
        pids={daemon, *of_the_test()},
        folders=[running.local_dirs.parent, tmp_path],
        is_for_it=has_secrets_of_the_plugins_daemon,
    )
    assert holders, "the daemon reads it from a file"
    for path in holders:
        assert running.local_dirs in path.parents
        assert path.parent.stat().st_mode & 0o077 == 0, path.parent
    gates.open("reduce-0")
    outcome = running.wait()
    assert outcome.answer == plain_answer(job)
    assert outcome.report["totals"]["mergedBlocksRead"] == MAPS * PARTITIONS
    # The daemon waits for the next job of its user.
    is_for_it = has_secrets_of_the_plugins_daemon
    logs = tmp_path / "events"
    assert_the_ended_job_has_kept(running, outcome, spark, logs, tmp_path, is_for_it=is_for_it)


@pytest.mark.lines("4.1")
@pytest.mark.parametrize("mode, more", [("merge", {}), ("remote", AES)], ids=["tls", "tls-and-aes"])
def test_an_application_with_tls_is_served_over_tls(
    mode, more, start_daemon, start_job, plain_answer, tmp_path
):
    made = certificate(tmp_path)
    secrets = ("--secrets", str(secret_file(tmp_path))) if more else ()
    daemon = start_daemon(extra=(*made.daemon, "--encrypted-only", *secrets))
    conf = {**made.spark, **more, "spark.lodestone.mode": mode}
    arguments = {"maps": MAPS, "partitions": PARTITIONS}
    services = {"spark.lodestone.services": daemon.host_port}
    job = Job("keyed_rows", arguments, TWO_EXECUTORS, conf | services)
    outcome = start_job(job).wait()
    assert outcome.answer == plain_answer(job)
    assert_all_from_services(outcome, mode)


@pytest.mark.lines("4.1")
def test_the_plugins_own_daemon_has_sparks_certificate(start_job, plain_answer, tmp_path):
    made = certificate(tmp_path)
    pem = {"spark.ssl.rpc.certChain": str(made.cert), "spark.ssl.rpc.privateKey": str(made.key)}
    arguments = {"maps": MAPS, "partitions": PARTITIONS}
    conf = {**made.spark, **pem, "spark.lodestone.mode": "remote"}
    job = Job("keyed_rows", arguments, TWO_EXECUTORS, conf)
    outcome = start_job(job).wait()
    assert outcome.answer == plain_answer(job)
    assert_all_from_services(outcome, "remote")
