# SPDX-License-Identifier: Apache-2.0
"""`lodestone doctor` finds faults of real services, mounts and applications."""

import http.server
import json
import os
import re
import select
import subprocess
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from email.utils import formatdate, parsedate_to_datetime
from pathlib import Path

import pytest

from harness.certificate import certificate
from harness.daemon import Daemon, free_port, wait_until
from harness.documented import commands
from harness.faulty_disk import faulty_disk
from harness.paths import DAEMON, SPARK_LINES, plugin_jar, spark_home
from harness.spark_process import MANAGER, Job

TIMEOUT_S = 60
MAPS, PARTITIONS = 6, 8
PORT = "127.0.0.1:0"
WARNED, FAILED = 1, 2


def doctor(*arguments: str | Path, within: tuple[str, ...] = ()) -> tuple[int, list[dict]]:
    """Returns the exit code, and the findings."""
    command = [*within, DAEMON, "doctor", "--json", *arguments]
    run = subprocess.run(command, timeout=TIMEOUT_S, capture_output=True, text=True)
    assert run.stderr == ""
    return run.returncode, json.loads(run.stdout)["findings"]


def only(findings: list[dict], check: str) -> dict:
    """Returns the one finding of a check."""
    [found] = [finding for finding in findings if finding["check"] == check]
    return found


def judged(finding: dict) -> tuple[str, str]:
    """Returns the check of a finding and its level, which an assertion compares together."""
    return finding["check"], finding["level"]


def logged(conf: dict[str, str], logs: Path) -> dict[str, str]:
    logs.mkdir()
    return {**conf, "spark.eventLog.enabled": "true", "spark.eventLog.dir": logs.as_uri()}


def findings_of(logs: Path) -> tuple[int, list[dict]]:
    """Returns the findings in the only event log of a folder."""
    [log] = logs.iterdir()
    return doctor("--event-log", log)


def test_a_drained_service_and_one_that_is_down_are_errors(start_daemon, start_job, gates):
    drained, well = start_daemon("drained"), start_daemon("well")
    down = f"127.0.0.1:{free_port()}"
    conf = {"spark.lodestone.mode": "remote", "spark.lodestone.services": drained.host_port}
    job = Job("keyed_rows", {"maps": 2, "partitions": 2, "gates": gates.address}, conf=conf)
    running = start_job(job)
    gates.run_maps(2)
    gates.wait_reached("reduce-0")
    drain = drained.drain()
    assert "takes nothing new" in drain.stdout.readline()
    code, found = doctor("--services", f"{well.host_port},{drained.host_port},{down}")
    assert code == FAILED
    states = {one["found"].split(" ")[0]: one for one in found if one["check"] == "state"}
    assert judged(states[well.host_port]) == ("state", "ok")
    assert judged(states[drained.host_port]) == ("state", "error")
    assert "lodestone drain --cancel" in states[drained.host_port]["remedy"]
    reached = {one["found"].split(" ")[0]: one for one in found if one["check"] == "reach"}
    assert set(reached) == {well.host_port, drained.host_port, down}
    assert judged(reached[well.host_port]) == judged(reached[drained.host_port]) == ("reach", "ok")
    assert judged(reached[down]) == ("reach", "error")
    gates.open_all()
    running.wait()
    assert drain.wait(TIMEOUT_S) == 0, drain.stderr.read()


@contextmanager
def other_clock(daemon: Daemon, ahead_s: float) -> Iterator[int]:
    """Serves what the admin endpoint of a daemon answers as a host with another clock would: only
    the time in the head differs. The port is the value."""

    class Answer(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            url = f"http://127.0.0.1:{daemon.admin_port}{self.path}"
            with urllib.request.urlopen(url, timeout=TIMEOUT_S) as reply:
                date, body = reply.headers["date"], reply.read()
            there = parsedate_to_datetime(date).timestamp() + ahead_s
            self.send_response_only(200)
            self.send_header("date", formatdate(there, usegmt=True))
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()


def test_a_service_whose_clock_differs_is_a_warning_with_the_seconds(start_daemon):
    daemon = start_daemon()

    def clock(port: int) -> dict:
        _, found = doctor("--services", daemon.host_port, "--admin-port", str(port))
        return only(found, "service-clock")

    same = clock(daemon.admin_port)
    assert judged(same) == ("service-clock", "ok"), same
    for ahead_s, words in ((60, "s ahead of"), (-60, "s behind")):
        with other_clock(daemon, ahead_s) as port:
            differs = clock(port)
        assert judged(differs) == ("service-clock", "warning"), differs
        assert words in differs["found"] and "time service" in differs["remedy"]
        figures = re.search(r"([0-9.]+) s (?:ahead|behind).*within ([0-9.]+) s", differs["found"])
        seconds, within = map(float, figures.groups())
        # Both figures are rounded to a tenth.
        assert abs(seconds - 60) <= within + 0.1, differs
    unknown = clock(free_port())
    assert unknown["level"] == "note"
    assert "unknown" in unknown["found"] and "--admin-port" in unknown["remedy"]
    other = clock(start_daemon("other").admin_port)
    assert "it is another daemon's" in other["found"]


def settings_of(conf: dict[str, str]) -> list[str]:
    return [word for key, value in conf.items() for word in ("--conf", f"{key}={value}")]


def test_a_service_that_shows_an_expired_certificate_or_one_that_nobody_signed_is_an_error(
    start_daemon, tmp_path
):
    made = {}
    for name, begins, days in (("over", "-10d", 5), ("soon", "-80d", 90), ("well", "-1d", 90)):
        folder = tmp_path / name
        folder.mkdir()
        made[name] = certificate(folder, begins, days)
    services = {name: start_daemon(f"{name}/dir", extra=made[name].daemon) for name in made}

    def shown(name: str, conf: dict[str, str]) -> dict:
        arguments = ("--services", services[name].host_port, *settings_of(conf))
        _, found = doctor(*arguments)
        assert only(found, "tls")["level"] == "ok"
        return only(found, "tls-certificate")

    def pem(name: str) -> dict[str, str]:
        prefix = "spark.ssl.rpc."
        cert, key = str(made[name].cert), str(made[name].key)
        return {
            f"{prefix}enabled": "true", f"{prefix}certChain": cert, f"{prefix}privateKey": key
        }  # fmt: skip

    stored = made["well"].spark
    over, soon = shown("over", stored), shown("soon", stored)
    assert judged(over) == ("tls-certificate", "error")
    assert judged(soon) == ("tls-certificate", "warning")
    assert "expired on" in over["found"] and "5 days ago" in over["found"]
    assert "in 9 days" in soon["found"]
    assert shown("well", stored)["level"] == "ok"
    # A JVM takes what it trusts itself, whatever its dates.
    itself = shown("over", pem("over"))
    assert itself["level"] == "warning" and "this very certificate" in itself["found"]
    assert shown("well", pem("well"))["level"] == "ok"
    other = shown("well", pem("soon"))
    assert other["level"] == "error" and "has signed it" in other["found"]
    anyone = shown("well", {"spark.ssl.rpc.enabled": "true"})
    assert anyone["level"] == "note" and "trustStore" in anyone["remedy"]


def test_a_daemons_own_certificate_that_expired_or_has_another_key_is_an_error(tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    for folder in (first, second):
        folder.mkdir()
    over, well = certificate(first, "-10d", 5), certificate(second)
    host = ("--dir", tmp_path, "--listen", PORT, "--reserve", "0b")
    code, found = doctor(*host, *over.daemon)
    assert code == FAILED
    assert "expired on" in only(found, "certificate")["found"]
    _, found = doctor(*host, "--tls-cert", well.cert, "--tls-key", over.key)
    levels = [finding["level"] for finding in found if finding["check"] == "certificate"]
    assert levels == ["error", "ok"]
    _, found = doctor(*host, *well.daemon)
    assert only(found, "certificate")["level"] == "ok"


def test_a_limit_of_open_files_that_is_too_low_is_a_warning(tmp_path):
    arguments = ("--dir", tmp_path, "--listen", PORT, "--reserve", "0b")
    low = ("prlimit", "--nofile=1024:1024")
    _, found = doctor(*arguments, within=low)
    files = only(found, "open-files")
    assert judged(files) == ("open-files", "warning")
    assert "1024 files may be open, and 4096 connections need" in files["found"]
    assert "LimitNOFILE=" in files["remedy"]
    _, found = doctor(*arguments, "--max-connections", "10", within=("prlimit", "--nofile=8192"))
    assert only(found, "open-files")["level"] == "ok"


@pytest.fixture
def disk(tmp_path):
    if os.geteuid() != 0:
        pytest.skip("only root mounts")
    with faulty_disk(tmp_path / "disk", megabytes=128) as mounted:
        mounted.directory.chmod(0o700)
        yield mounted


def test_a_disk_that_is_slow_is_a_warning_with_its_speed_and_keeps_nothing(disk):
    arguments = ("--dir", disk.directory, "--listen", PORT, "--reserve", "0b")
    disk.limit(8e6)
    _, found = doctor(*arguments)
    speed = only(found, "speed")
    assert judged(speed) == ("speed", "warning"), speed
    [rate] = [float(word) for word in speed["found"].split(" MB/s")[0].split()[-1:]]
    assert 2 <= rate <= 8, speed
    assert list(disk.directory.iterdir()) == []


@pytest.mark.seldom
def test_certificates_on_a_disk_that_hangs_leave_services_with_an_unknown_trust(
    disk, start_daemon, tmp_path
):
    made = certificate(tmp_path)
    service = start_daemon("service", extra=made.daemon)
    chain = disk.directory / "chain.pem"
    disk.hang()
    conf = {"enabled": "true", "certChain": str(chain), "privateKey": str(made.key)}
    settings = settings_of({f"spark.ssl.rpc.{key}": value for key, value in conf.items()})
    command = [DAEMON, "doctor", "--json", "--services", service.host_port, *settings]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        answers, _, _ = select.select([running.stdout], [], [], TIMEOUT_S)
        # No process ends while a thread of it waits for such a disk.
        disk.thaw()
        assert answers, "it waits for the disk"
        found = json.loads(running.stdout.read())["findings"]
    assert running.returncode == FAILED
    shown = only(found, "tls-certificate")
    assert shown["level"] == "note" and "hangs" in shown["found"], shown
    assert "its file system hangs" in only(found, "directory")["found"]


@pytest.mark.parametrize("operations", [None, ["fsync"], ["write"], ["statfs"]])
def test_a_disk_that_fails_is_an_error_and_is_to_be_replaced(disk, operations):
    disk.fail(operations and frozenset(operations))
    code, found = doctor("--dir", disk.directory, "--listen", PORT, "--reserve", "0b")
    assert code == FAILED
    expected = ("room", "error") if operations == ["statfs"] else ("directory", "error")
    failed = only(found, expected[0])
    assert judged(failed) == expected
    assert "Input/output error" in failed["found"]
    assert failed["remedy"].startswith("Replace the disk"), failed


@pytest.mark.lines("4.1")
def test_a_service_whose_only_disk_failed_is_an_error(disk, start_daemon, start_job):
    daemon = start_daemon(directory=disk.directory / "service", memory="32MiB")
    arguments = {"maps": MAPS, "partitions": PARTITIONS, "rows": 120000, "value_bytes": 400}
    conf = {
        "spark.lodestone.mode": "merge",
        "spark.lodestone.services": daemon.host_port,
        "spark.shuffle.compress": "false",
    }
    disk.fail(frozenset(["write"]))
    running = start_job(Job("keyed_rows", arguments, conf=conf))
    wait_until(lambda: daemon.status()["state"] == "disk failed", "that it is noticed")
    code, found = doctor("--services", daemon.host_port)
    assert code == FAILED
    state = only(found, "state")
    assert judged(state) == ("state", "error") and "no disk that works" in state["found"]
    running.wait()


@pytest.fixture
def mounts(tmp_path):
    """Returns what runs a program where only it sees three mounts: one where no program may run,
    one with room for few files, and one that takes none."""
    if os.geteuid() != 0:
        pytest.skip("only root mounts")
    noexec, few, fixed = (tmp_path / name for name in ("noexec", "few", "fixed"))
    for directory in (noexec, few, fixed):
        directory.mkdir()
    script = (
        f"mount -t tmpfs -o noexec,size=1m,mode=700 tmpfs {noexec} && "
        f"mount -t tmpfs -o size=100m,nr_inodes=50,mode=700 tmpfs {few} && "
        f"mount -t tmpfs -o ro,size=1m,mode=700 tmpfs {fixed} && "
        'exec "$@"'
    )
    return ("unshare", "--mount", "sh", "-c", script, "sh")


def test_a_local_directory_where_no_program_may_run_is_a_warning(mounts, tmp_path):
    local = tmp_path / "noexec" / "spark"
    arguments = ("--conf", f"spark.local.dir={local}")
    _, found = doctor(*arguments, within=mounts)
    assert judged(only(found, "noexec")) == ("noexec", "warning")
    assert "spark.lodestone.embedded.binary" in only(found, "noexec")["remedy"]
    _, found = doctor(*arguments)
    assert only(found, "noexec")["level"] == "ok"


def test_a_file_of_settings_is_read_as_spark_reads_it_and_its_faults_are_found(tmp_path):
    [command] = [
        each.text for each in commands() if each.text.startswith("lodestone doctor --conf ")
    ]
    home = tmp_path / "spark"
    (home / "conf").mkdir(parents=True)
    here = SPARK_LINES["4.1"]
    (home / "jars").symlink_to(spark_home(here) / "jars")
    path = f"{DAEMON.parent}:{os.environ['PATH']}"
    variables = {**os.environ, "PATH": path, "SPARK_HOME": str(home)}

    def found_in(lines: list[str]) -> tuple[int, list[dict]]:
        (home / "conf" / "spark-defaults.conf").write_text("\n".join(lines))
        run = subprocess.run(
            f"{command} --json", shell=True, env=variables, capture_output=True, text=True
        )
        assert run.stderr == ""
        return run.returncode, json.loads(run.stdout)["findings"]

    jar = plugin_jar(here)
    well = [
        "# spark.lodestone.mod merge",
        f"spark.shuffle.manager   {MANAGER}",
        "spark.serializer=org.apache.spark.serializer.KryoSerializer",
        f"spark.driver.extraClassPath : {jar}",
        f"spark.executor.extraClassPath \\\n  {jar}",
        "spark.executor.memoryOverhead 832m",
    ]
    code, found = found_in(well)
    assert (code, {one["level"] for one in found}) == (0, {"ok"}), found
    other = plugin_jar(SPARK_LINES["3.5"])
    faulty = [line.replace(str(jar), str(other)) for line in well]
    code, found = found_in([*faulty, "spark.lodestone.mod merge"])
    assert code == FAILED, found
    assert judged(only(found, "key")) == ("key", "error")
    assert "Write spark.lodestone.mode" in only(found, "key")["remedy"]
    of_jar = [one for one in found if one["check"] == "jar"]
    assert [judged(one) for one in of_jar] == [("jar", "error")] * 2
    assert all(f"Use {jar.name}" in one["remedy"] for one in of_jar)


def test_a_disk_that_the_kernel_made_read_only_is_an_error_that_leads_to_its_log(mounts, tmp_path):
    arguments = ("--dir", tmp_path / "fixed", "--listen", PORT, "--reserve", "0b")
    code, found = doctor(*arguments, within=mounts)
    assert code == FAILED
    fixed = [finding for finding in found if finding["check"] == "directory"]
    assert [finding["level"] for finding in fixed] == ["error"]
    assert "Read-only file system" in fixed[0]["found"] and "dmesg" in fixed[0]["remedy"]


def test_a_small_disk_in_memory_has_no_room_for_a_daemon_and_stays_empty(mounts, tmp_path):
    few = tmp_path / "few"
    arguments = ("--dir", few, "--listen", PORT, "--reserve", "200m")
    script = f'"$@"; code=$?; ls -A {few} >&2; exit $code'
    within = (*mounts, "sh", "-c", script, "sh")
    code, found = doctor(*arguments, within=within)
    assert code == FAILED
    room = [finding for finding in found if finding["check"] == "room"]
    assert [judged(finding) for finding in room] == [("room", "error")] * 2
    assert "what the daemon leaves free" in room[0]["found"]
    assert "more files (inodes)" in room[1]["found"]
    assert judged(only(found, "file-system")) == ("file-system", "warning")
    # It is measured nevertheless: the room is for the daemon's data, and the file is small.
    assert re.search(r" takes [0-9]+ MB/s \([1-9]", only(found, "speed")["found"])


def test_the_log_of_a_job_whose_service_died_names_the_originals_and_what_to_do(
    start_daemon, start_job, gates, tmp_path
):
    daemon: Daemon = start_daemon()
    logs = tmp_path / "logs"
    conf = logged({"spark.lodestone.services": daemon.host_port}, logs)
    arguments = {"maps": MAPS, "partitions": PARTITIONS, "gates": gates.address}
    running = start_job(Job("keyed_rows", arguments, conf=conf))
    gates.run_maps(MAPS)
    gates.wait_reached("reduce-0")
    daemon.kill()
    gates.open_all()
    totals = running.wait().report["totals"]
    code, found = findings_of(logs)
    assert code == WARNED, found
    read = only(found, "originals")
    assert f"{totals['originalsRead']} originals were read" in read["found"]
    assert "daemon" in read["remedy"]
    assert f"{totals['originalsRead']} originals" in only(found, "sums")["found"]
    assert only(found, "shuffle-manager")["level"] == "ok"


def test_a_setting_that_leaves_shuffles_to_spark_is_in_the_drivers_log_and_found_after_the_job(
    start_daemon, start_job, tmp_path
):
    logs = tmp_path / "logs"
    conf = {
        "spark.lodestone.services": start_daemon().host_port,
        "spark.shuffle.useOldFetchProtocol": "true",
    }
    two = [["keyed_rows", {"maps": 3, "partitions": 2}]] * 2
    job = Job("one_after_another", {"jobs": two}, conf=logged(conf, logs))
    outcome = start_job(job).wait()
    assert outcome.log.count("is left to plain Spark, and so are others like it") == 1
    remedy = "Turn spark.shuffle.useOldFetchProtocol off"
    assert remedy in outcome.log
    code, found = findings_of(logs)
    assert code == FAILED, found
    assert only(found, "sums")["level"] == "warning"
    assert remedy in only(found, "sums")["remedy"]
    left = [finding for finding in found if finding["check"] == "left-to-spark"]
    assert len(left) == len(two)
    assert remedy in only(found, "old-fetch-protocol")["remedy"]


def test_the_log_of_a_job_in_which_all_was_merged_has_nothing_to_change(
    start_daemon, start_job, tmp_path
):
    logs = tmp_path / "logs"
    conf = logged({"spark.lodestone.services": start_daemon().host_port}, logs)
    start_job(Job("keyed_rows", {"maps": MAPS, "partitions": PARTITIONS}, conf=conf)).wait()
    code, found = findings_of(logs)
    assert code == 0, found
    assert "No shuffle lost time" in only(found, "sums")["found"]
