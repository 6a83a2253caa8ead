# SPDX-License-Identifier: Apache-2.0
"""Applications that authenticate, and encrypt, are merged and remote like others; services with
secrets serve nobody else; and no secret is where others can read it."""

import os
from pathlib import Path

import pytest

from harness.certificate import certificate
from harness.paths import EVERY_LINE, NOT_41, SELDOM, USUAL_LINES
from harness.processes import daemons_below
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
    assert SECRET not in outcome.log
    assert SECRET not in daemon.log.read_text()


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


def environment_of(process: int) -> str:
    return Path(f"/proc/{process}/environ").read_bytes().decode(errors="replace")


def command_of(process: int) -> str:
    return Path(f"/proc/{process}/cmdline").read_bytes().decode(errors="replace")


@pytest.mark.lines(*USUAL_LINES, seldom=NOT_41)
def test_the_plugins_own_daemon_gets_the_secret_by_a_file_that_only_its_user_can_read(
    start_job, gates, plain_answer
):
    job = job_of("aes", None, "merge", gates)
    running = start_job(job)
    for name in [f"map-{i}" for i in range(MAPS)] + ["between-0"]:
        gates.open(name)
    for reduce in range(1, PARTITIONS):
        gates.open(f"reduce-{reduce}")
    gates.wait_reached("reduce-0")
    [daemon] = daemons_below(running.local_dirs)
    assert SECRET not in environment_of(daemon) + command_of(daemon)
    holders = [path for path in running.local_dirs.rglob("*") if holds_secret(path)]
    assert holders, "the daemon reads it from a file"
    for path in holders:
        assert path.stat().st_mode & 0o077 == 0, path
        assert path.parent.stat().st_mode & 0o077 == 0, path.parent
    gates.open("reduce-0")
    outcome = running.wait()
    assert outcome.answer == plain_answer(job)
    assert outcome.report["totals"]["mergedBlocksRead"] == MAPS * PARTITIONS
    assert SECRET not in outcome.log + str(outcome.report)


def holds_secret(path: Path) -> bool:
    try:
        return path.is_file() and SECRET.encode() in path.read_bytes()
    except OSError as error:
        # The job goes on meanwhile, and removes files.
        assert not os.path.exists(path), error
        return False


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
