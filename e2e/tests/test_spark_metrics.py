# SPDX-License-Identifier: Apache-2.0
"""The sums of the report among Spark's own metrics, as any sink of Spark gets them."""

import json
import re

from harness.daemon import free_port, wait_until
from harness.history import page
from harness.paths import ROOT
from harness.spark_process import Job

SIDE = ("keyed_rows", {"maps": 6, "partitions": 8})
ONE_MAP = ("keyed_rows", {"maps": 1, "partitions": 8})


def gauges(port: int) -> dict[str, int]:
    """Returns our numbers by their names, without what the documentation says of all names."""
    [application] = json.loads(page(f"http://127.0.0.1:{port}/api/v1/applications"))
    begin = f"{application['id']}.driver.lodestone."
    everything = json.loads(page(f"http://127.0.0.1:{port}/metrics/json/"))["gauges"]
    names = [name for name in everything if name.startswith(begin)]
    return {name.removeprefix(begin): everything[name]["value"] for name in names}


def test_sparks_metrics_have_each_number_of_the_report_and_each_documented_reason(
    start_daemon, start_job, gates
):
    port = free_port()
    last = ("keyed_rows", {"maps": 5, "partitions": 3, "gates": gates.address})
    conf = {
        "spark.lodestone.services": start_daemon().host_port,
        "spark.ui.enabled": "true",
        "spark.ui.port": str(port),
    }
    running = start_job(Job("one_after_another", {"jobs": [SIDE, ONE_MAP, last]}, conf=conf))
    gates.open_all(but=("between-0",))
    gates.wait_reached("between-0")

    def all_reported() -> dict[str, int]:
        shown = gauges(port)
        is_all = shown["blocksPushed"] == shown["mergedBlocksRead"] == 48 + 15
        return shown if is_all else {}

    shown = wait_until(all_reported, "the reports of all tasks", 60)
    gates.open("between-0")
    totals = running.wait().report["totals"]
    counted = totals.pop("reasons")
    reasons = {
        name.removeprefix("reason."): shown.pop(name)
        for name in list(shown)
        if name.startswith("reason.")
    }
    assert shown == totals
    assert (shown["shuffles"], shown["merged"], shown["plain"]) == (3, 2, 1)
    assert {code: count for code, count in reasons.items() if count} == counted == {"SINGLE_MAP": 1}
    documented = re.findall(
        r"^\| `([A-Z_]+)` \|", (ROOT / "docs" / "reasons.md").read_text(), re.MULTILINE
    )
    assert sorted(reasons) == sorted(documented)
