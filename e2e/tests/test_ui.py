# SPDX-License-Identifier: Apache-2.0
"""The tab in Spark's UI: what happened to each shuffle, and why, while the application runs and in
the History Server."""

import json
import re
import subprocess

import pytest

from harness.chromium import chromium
from harness.daemon import free_port, wait_until
from harness.history import history_server, page
from harness.paths import DAEMON, EVERY_LINE, SELDOM
from harness.spark_process import Job

SIDE = ("keyed_rows", {"maps": 6, "partitions": 8})
# The driver's memory decides when Spark removes a shuffle that nobody uses any more.
GONE = r"( Spark has removed it\.)?"
ONE_MAP = ("keyed_rows", {"maps": 1, "partitions": 8})


def job(services: str, port: int, logs, gates) -> Job:
    """Three shuffles: one that is merged, one that is left to Spark, and one that is merged and
    read; then the driver waits."""
    last = ("keyed_rows", {"maps": 5, "partitions": 3, "gates": gates.address})
    return Job(
        "one_after_another",
        {"jobs": [SIDE, ONE_MAP, last]},
        conf={
            "spark.lodestone.services": services,
            "spark.ui.enabled": "true",
            "spark.ui.port": str(port),
            "spark.eventLog.enabled": "true",
            "spark.eventLog.dir": logs.as_uri(),
        },
    )


def cells(browser_page, heading: str) -> list[list[str]]:
    """Returns the texts of the table below a heading."""
    # Spark 4.2 and newer put each table into an element of its own.
    table = browser_page.locator(f"xpath=//h4[.='{heading}']/following::table[1]")
    return [row.locator("td").all_inner_texts() for row in table.locator("tbody tr").all()]


@pytest.mark.lines(*EVERY_LINE, seldom=SELDOM)
def test_the_tab_says_what_happened_to_each_shuffle_in_sparks_ui_and_in_the_history_server(
    spark, start_daemon, start_job, plain_answer, gates, tmp_path
):
    logs = tmp_path / "logs"
    logs.mkdir()
    port = free_port()
    asked = job(start_daemon().host_port, port, logs, gates)
    running = start_job(asked)
    gates.open_all(but=("between-0",))
    gates.wait_reached("between-0")
    live = f"http://127.0.0.1:{port}/lodestone/"
    wait_until(lambda: "Readers took 15 blocks in" in page(live), "the last shuffle", 60)
    with chromium() as browser:
        shown = browser.new_page(viewport={"width": 1500, "height": 900})
        shown.goto(live)
        assert shown.locator("li.nav-item.active").inner_text().strip() == "Lodestone"
        check(shown)
        shown.screenshot(path=tmp_path / "live.png", full_page=True)
        gates.open("between-0")
        outcome = running.wait()
        assert outcome.answer == plain_answer(asked)
        assert outcome.report["totals"]["mergedBlocksRead"] == 48 + 15
        with history_server(spark, logs, tmp_path) as server:
            shown.goto(f"{server.application()}/lodestone/")
            check(shown)
            shown.screenshot(path=tmp_path / "history.png", full_page=True)
        with history_server(spark, logs, tmp_path, has_plugin=False) as server:
            shown.goto(f"{server.application()}/jobs/")
            assert "Lodestone" not in shown.locator("ul.navbar-nav").inner_text()
            assert "Completed Jobs" in shown.locator("body").inner_text()
            assert "Drop unrecognized event" in server.log()
            served = explained(f"{server.application()}/jobs/", "--json")
    # Spark 4 writes a rolling log, compressed with zstd; Spark 3.5 one file.
    (log,) = logs.iterdir()
    later = json.loads(explained(log, "--json"))
    assert json.loads(served) == later
    assert later["totals"] == outcome.report["totals"]
    assert [one["mergedBlocksRead"] for one in later["shuffles"]] == [48, 0, 15]
    both = explained(log, "--event-log", str(log))
    assert "3 shuffles: 2 merged, 1 left to plain Spark" in both
    assert re.search(r"blocks read merged +63 +63 +1\.00", both), both


def explained(log, *more: str) -> str:
    command = [DAEMON, "explain", "--event-log", log, *more]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def check(shown) -> None:
    sums = shown.locator("ul.list-unstyled").last.inner_text()
    assert "Shuffles: 3: 2 merged, 0 remote, 1 left to plain Spark" in sums
    assert re.search(r"Read: 63 blocks in \d+ chunks", sums), sums
    last, one_map, first = cells(shown, "Shuffles")
    assert first[1] == last[1] == "merged"
    assert re.fullmatch(rf"Readers took 48 blocks in \d+ chunks\.{GONE}", first[2]), first
    assert re.fullmatch(rf"Readers took 15 blocks in \d+ chunks\.{GONE}", last[2]), last
    assert first[8] == last[8] == "100 %"
    assert one_map[1] == "plain"
    why = r"because there is only one map task: merging needs several\."
    assert re.fullmatch(rf"Its blocks were not merged, {why}{GONE}", one_map[2]), one_map
    (reason,) = [row for row in cells(shown, "Why not more") if row[0] == "SINGLE_MAP"]
    assert reason[1:] == ["1", "there is only one map task: merging needs several", "Nothing."]
    (service,) = cells(shown, "Services")
    assert service[1] == "serving", service
