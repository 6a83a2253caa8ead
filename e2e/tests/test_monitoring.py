# SPDX-License-Identifier: Apache-2.0
"""The dashboard and the alerts, in a real Prometheus that scrapes a real daemon."""

import json
import math
import re
import subprocess
import urllib.request

import pytest
import yaml
from monitoring.__main__ import CHART_RULES, DASHBOARD, RULES
from monitoring.alerts import ALERTS, REFUSALS, rules
from monitoring.dashboard import COLUMNS, dashboard
from monitoring.panels import PANELS

from harness import grafana
from harness.daemon import wait_until
from harness.paths import BENCH, ROOT
from harness.prometheus import Prometheus, promtool

AGAIN = "run `PYTHONPATH=deploy python3 -m monitoring`"
JOB = 'job="spark/lodestone", instance="a:7338"'
DISK = f'{JOB}, dir="/disk1"'
P99 = {"lodestone_push_seconds": JOB, "lodestone_fetch_seconds": JOB}
P99 |= {"lodestone_merge_write_seconds": DISK}
# One slow operation every two minutes.
FEW = "0+0.5x400"


def slow(histogram: str, seconds: float, values: str = "0+60x400") -> dict[str, str]:
    """Returns a histogram whose requests all take up to so many seconds."""
    bucket = f"{histogram}_bucket{{{P99[histogram]}, le="
    limits = (1.0, 2.5, 5.0, 30.0)
    series = {f'{bucket}"{le}"}}': "0x400" if le < seconds else values for le in limits}
    count = f"{histogram}_count{{{P99[histogram]}}}"
    return series | {f'{bucket}"+Inf"}}': values, count: values}


def states(state: str) -> dict[str, str]:
    name = "lodestone_merge_disk_state"
    return {
        f'{name}{{{DISK}, state="{each}"}}': f"{int(each == state)}x400"
        for each in ("works", "full", "failed")
    }


def gauges(**values: float) -> dict[str, str]:
    disks = {"free_bytes", "size_bytes", "reserve_bytes"}
    return {
        f"{f'lodestone_merge_disk_{name}' if name in disks else f'lodestone_{name}'}"
        f"{{{DISK if name in disks else JOB}}}": f"{value}x400"
        for name, value in values.items()
    }


def counter(name: str, values: str, labels: str = JOB) -> dict[str, str]:
    return {f"lodestone_{name}_total{{{labels}}}": values}


def failures(written: str, read: str) -> dict[str, str]:
    return counter("merge_write_failures", written, DISK) | counter(
        "merge_read_failures", read, DISK
    )


def coded(name: str, code: str, values: str) -> dict[str, str]:
    return counter(name, values, f'{JOB}, code="{code}"')


def refused(code: str, what: str) -> dict[str, str]:
    """Returns refusals of one kind. A daemon has each code of all of them from its start."""
    series = {}
    for name in REFUSALS:
        series |= coded(name, code, "0+120x400" if name == what else "0x400")
    return series


def memory(store: int, pushes: int) -> dict[str, str]:
    series = {}
    for part, used in (("store", store), ("pushes", pushes)):
        series[f'lodestone_memory_part_bytes{{{JOB}, part="{part}"}}'] = f"{used}x400"
        series[f'lodestone_memory_part_limit_bytes{{{JOB}, part="{part}"}}'] = "100x400"
    return series


def disk(free: int, size: int, reserve: int) -> dict[str, str]:
    return gauges(free_bytes=free, size_bytes=size, reserve_bytes=reserve)


def started(values: str) -> dict[str, str]:
    return {f"lodestone_start_time_seconds{{{JOB}}}": values}


def builds(*versions: str) -> dict[str, str]:
    labels = 'job="spark/lodestone", instance="{}:7338", version="{}", commit="unknown"'
    return {
        f"lodestone_build_info{{{labels.format(at, version)}}}": "1x400"
        for at, version in enumerate(versions)
    }


# For each alert series with which it fires, and some with which it must not.
CASES = {
    "LodestoneDown": (
        {f"up{{{JOB}}}": "0x400"}, [{f"up{{{JOB}}}": "1x400"}, {'up{job="b"}': "0x400"}],
    ),
    # A daemon that is killed every 90 s, each time with other counts before; and one update.
    "LodestoneRestarts": (started("0+90x400"), [started("7x400"), started("1x8 2x400")]),
    "LodestoneNotServing": (
        gauges(serving=0, draining=0),
        [gauges(serving=1, draining=0), gauges(serving=0, draining=1)],
    ),
    "LodestoneDiskFailed": (states("failed"), [states("works"), states("full")]),
    "LodestoneDiskFull": (states("full"), [states("works"), states("failed")]),
    "LodestoneDiskNearlyFull": (
        # A small disk, of which a quarter stays free: the daemon takes no data before the alert.
        disk(free=24, size=100, reserve=25),
        # A disk that does not answer has no size.
        [disk(free=24, size=100, reserve=5), disk(free=0, size=0, reserve=5)],
    ),
    "LodestoneDiskErrors": (failures("0x400", "0+1x400"), [failures("7x400", "0x400")]),
    "LodestoneDiskSlow": (
        slow("lodestone_merge_write_seconds", 2),
        [slow("lodestone_merge_write_seconds", 1), slow("lodestone_merge_write_seconds", 2, FEW)],
    ),
    "LodestoneMemoryPressure": (
        memory(store=10, pushes=95), [memory(store=80, pushes=50), memory(store=70, pushes=0)],
    ),
    "LodestoneRefusesRequests": (
        refused("DISK_FULL", "merge_rejected"),
        [refused("TOO_LATE", name) for name in REFUSALS],
    ),
    "LodestoneConnectionsRefused": (
        counter("connections_refused", "0+1x400"), [counter("connections_refused", "3x400")],
    ),
    "LodestoneClientsNotAuthenticated": (
        counter("authentication_failures", "0+2x400"),
        [counter("authentication_failures", "0+0.5x400")],
    ),
    "LodestonePushSlow": (
        slow("lodestone_push_seconds", 5),
        [slow("lodestone_push_seconds", 2), slow("lodestone_push_seconds", 5, FEW)],
    ),
    "LodestoneFetchSlow": (
        slow("lodestone_fetch_seconds", 5),
        [slow("lodestone_fetch_seconds", 2), slow("lodestone_fetch_seconds", 5, FEW)],
    ),
    "LodestoneReadsFail": (
        coded("fetch_failures", "DISK_FAILED", "0+2x400"),
        [
            coded("fetch_failures", "DISK_FAILED", "0+0.1x400"),
            coded("fetch_failures", "UNKNOWN_SHUFFLE", "0+2x400"),
        ],
    ),
    "LodestoneDrainLasts": (gauges(draining=1), [gauges(draining=0)]),
    "LodestoneVersionsDiffer": (builds("0.1.0", "0.2.0"), [builds("0.1.0", "0.1.0")]),
}  # fmt: skip


def test_the_dashboard_and_the_rules_are_as_their_generator_writes_them():
    assert DASHBOARD.read_text() == dashboard(), AGAIN
    assert RULES.read_text() == CHART_RULES.read_text() == rules(), AGAIN
    linked = rules("https://docs.example.org")
    for alert in ALERTS:
        assert f"runbook_url: 'https://docs.example.org/alerts/#{alert.anchor}'\n" in linked


def test_no_panel_of_the_dashboard_hides_another():
    panels = json.loads(DASHBOARD.read_text())["panels"]
    taken = set()
    for panel in panels:
        at = panel["gridPos"]
        cells = {
            (at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])
        }  # fmt: skip
        assert at["x"] + at["w"] <= COLUMNS and not cells & taken, panel["title"]
        taken |= cells
        assert panel["description"] and panel["fieldConfig"]["defaults"]["unit"]
    assert len({panel["id"] for panel in panels}) == len(panels)


# A field and its value, each with one that Grafana does not know.
WRONG = {
    "field": ('"schemaVersion"', '"schemaversion"'),
    "type": ('"schemaVersion": 39', '"schemaVersion": "39"'),
    "number": ('"refresh": 2', '"refresh": 9'),
    "panel": ('"gridPos"', '"gridPosition"'),
    "kind": ('"type": "timeseries"', '"type": "graph"'),
    "option": ('"textMode"', '"textStyle"'),
    "value": ('"value_and_name"', '"value_with_name"'),
    "query": ('"legendFormat"', '"legend"'),
}


def test_grafanas_own_types_have_each_field_and_value_of_the_dashboard(tmp_path):
    right = DASHBOARD.read_text()
    documents = {name: right.replace(*each, 1) for name, each in WRONG.items()}
    assert right not in documents.values()
    found = grafana.faults({"right": right, **documents}, tmp_path)
    assert found.pop("right") == []
    assert [name for name, faults in found.items() if not faults] == []


def test_every_alert_leads_to_a_section_that_says_what_to_do():
    page = (ROOT / "docs" / "alerts.md").read_text()
    sections = dict(re.findall(r"^## (Lodestone\w+)\n\n(.+?)(?=\n## |\Z)", page, re.M | re.S))
    assert list(sections) == [alert.name for alert in ALERTS]
    for rule in yaml.safe_load(RULES.read_text())["groups"][0]["rules"]:
        assert rule["annotations"]["runbook"] == f"docs/alerts.md#{rule['alert'].lower()}"
        assert "**Do**" in sections[rule["alert"]]


def test_prometheus_accepts_the_rules():
    assert f"SUCCESS: {len(ALERTS)} rules found" in promtool("check", "rules", RULES)


@pytest.mark.parametrize("name", [alert.name for alert in ALERTS])
def test_an_alert_fires_on_its_trouble_and_on_no_other(name, tmp_path):
    sick, healthy = CASES[name]
    lasts = {alert.name: alert.lasts for alert in ALERTS}[name]
    cases = [case(name, sick, lasts, fires=True)]
    cases += [case(name, series, lasts, fires=False) for series in healthy]
    asked = {"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": cases}
    path = tmp_path / "cases.yaml"
    path.write_text(yaml.safe_dump(asked))
    assert "SUCCESS" in promtool("test", "rules", path)


def case(name: str, series: dict[str, str], lasts: str, fires: bool) -> dict:
    """Returns one test of promtool: whether an alert fires after its time, and not before it."""
    minutes = int(lasts[:-1]) * {"m": 1, "h": 60}[lasts[-1]]
    inputs = [{"series": one, "values": values} for one, values in series.items()]
    # How many series fire is asked, so that no text of an annotation is here again.
    count = f'count(ALERTS{{alertname="{name}", alertstate="firing"}})'
    samples = [{"labels": "{}", "value": 1}] if fires else []
    tests = [{"expr": count, "eval_time": f"{minutes + 20}m", "exp_samples": samples}]
    if minutes > 1:
        tests.append({"expr": count, "eval_time": f"{minutes - 1}m", "exp_samples": []})
    return {"interval": "1m", "input_series": inputs, "promql_expr_test": tests}


def metrics_of(daemon) -> str:
    url = f"http://127.0.0.1:{daemon.admin_port}/metrics"
    with urllib.request.urlopen(url, timeout=5) as reply:
        return reply.read().decode()


@pytest.fixture
def watched(start_daemon, tmp_path):
    """Returns a Prometheus that has seen a daemon before and after it served pushes and reads, and
    wrote to its disk."""
    daemon = start_daemon(memory="16MiB")
    prometheus = Prometheus(tmp_path / "prometheus", [daemon.admin_port], RULES)
    try:
        wait_until(lambda: prometheus.query("lodestone_serving"), "the first look")
        load = "--block 10k --total 32m --connections 8 --rounds 1 --warmup 0 --from merged"
        command = [BENCH, "fetch", "--server", daemon.host_port, *load.split()]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        assert daemon.counts()["fetch_chunks"] > 0
        sent = f"lodestone_fetch_bytes_total == {daemon.counts()['fetch_bytes']}"
        wait_until(lambda: prometheus.query(sent), "a look after the load")
        yield prometheus, metrics_of(daemon)
    finally:
        prometheus.stop()


def names_in(text: str) -> set[str]:
    return set(re.findall(r"\{\{\s*(?:\$labels\.)?(\w+)\s*\}\}", text))


def assert_figures(prometheus: Prometheus, expression: str, labels: set[str]) -> None:
    """Fails if an expression has no series, one without these labels, or one without a number."""
    found = prometheus.query(expression)
    assert found, expression
    for series in found:
        assert labels <= series["metric"].keys(), (expression, labels, series)
        assert not math.isnan(float(series["value"][1])), (expression, series)


def test_every_panel_and_alert_has_figures_of_a_daemon_that_served_a_shuffle(watched):
    prometheus, text = watched
    promtool("check", "metrics", text=text)
    for panel in PANELS:
        for asked, legend in panel.asks:
            expression = asked.replace("$__rate_interval", "5m")
            expression = expression.replace("$job", ".+").replace("$instance", ".+")
            assert "$" not in expression
            assert_figures(prometheus, expression, names_in(legend))
    for alert in ALERTS:
        assert_figures(prometheus, alert.figure, names_in(alert.summary))
    wait_until(
        lambda: all(rule["lastEvaluation"] > "0002" for rule in prometheus.alerts().values()),
        "every rule was evaluated",
    )
    evaluated = prometheus.alerts()
    assert list(evaluated) == [alert.name for alert in ALERTS]
    for name, rule in evaluated.items():
        assert (rule["health"], rule.get("lastError", "")) == ("ok", ""), name


def test_an_operator_sees_in_prometheus_that_a_daemon_is_gone(start_daemon, tmp_path):
    daemon = start_daemon()
    prometheus = Prometheus(tmp_path / "prometheus", [daemon.admin_port], RULES)
    try:
        wait_until(lambda: prometheus.query("lodestone_serving == 1"), "the daemon is seen")
        daemon.stop()
        wait_until(
            lambda: prometheus.alerts()["LodestoneDown"]["state"] == "pending",
            "the alert is pending",
        )
    finally:
        prometheus.stop()
