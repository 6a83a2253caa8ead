# SPDX-License-Identifier: Apache-2.0
"""The report of an application, from the daemons that it used."""

import json
import subprocess

from harness.daemon import Daemon, free_port
from harness.paths import DAEMON
from harness.spark_process import Job

TIMEOUT_S = 20


def explain(daemon: Daemon, *arguments: str) -> str:
    command = [DAEMON, "explain", *arguments, "--service", daemon.host_port]
    return subprocess.run(
        command, check=True, timeout=TIMEOUT_S, capture_output=True, text=True
    ).stdout


def test_explain_reports_an_application_after_its_end(start_daemon, start_job):
    daemon = start_daemon()
    services = f"{daemon.host_port},127.0.0.1:{free_port()}"
    outcome = start_job(Job("keyed_rows", conf={"spark.lodestone.services": services})).wait()
    application, state = explain(daemon).split(": ", 1)
    assert state.startswith("ended ")
    report = json.loads(explain(daemon, application, "--json"))
    assert report["totals"] == outcome.report["totals"]
    assert report["totals"]["mergedBlocksRead"] > 0
    # The id may be as Spark shows it, without the suffix that a driver adds to distinguish it.
    page = explain(daemon, application.split("~")[0])
    assert "~" in application
    assert "1 shuffles: 1 merged, 0 left to plain Spark" in page
    assert "SERVICE_LEFT_OUT  1  a known service did not serve" in page
