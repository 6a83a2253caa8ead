# SPDX-License-Identifier: Apache-2.0
"""Each bench draws its plots with matplotlib, from the JSON that it writes."""

import json
import re
import subprocess
from xml.etree import ElementTree

import pytest
from matrix.command_line import draw
from stress.figures import FIGURES, bars

from harness.paths import BENCH, DAEMON, ROOT

ABOUT = {
    "date": "2026-11-26 09:00 UTC", "commit": "c0ffee1", "rounds": 1,
    "machine": {"cpus": 2, "cpu": "CPU"},
    "setting": {"spark": "4.1.4", "master": "local-cluster[2,1,1024]"},
}  # fmt: skip


@pytest.fixture
def drawn(tmp_path, monkeypatch):
    """Draws the plots of a result, and returns the texts of the page. matplotlib writes each as a
    comment before its outlines."""
    monkeypatch.setenv("PYTHONPATH", f"{ROOT / 'e2e'}:{ROOT / 'bench'}")

    def texts(bench: str, result: dict) -> list[str]:
        path = tmp_path / bench
        path.with_suffix(".json").write_text(json.dumps(result))
        draw(bench, path)
        page = path.with_suffix(".svg").read_text()
        assert ElementTree.fromstring(page).tag.endswith("svg")
        return re.findall("<!-- (.*?) -->", page)

    return texts


@pytest.fixture
def stressed(tmp_path) -> dict:
    """A report of `lodestone-bench` on a daemon and on the bare system calls, with little work."""
    disk, report = tmp_path / "disk", tmp_path / "report.json"
    disk.mkdir()
    words = [
        "table", "--server", "lodestone", "--server", "limit", "--block", "10000b,1m",
        "--total", "4m", "--connections", "4", "--rounds", "1", "--warmup", "0",
        "--dir", disk, "--daemon", DAEMON, "--json", report,
    ]  # fmt: skip
    done = subprocess.run([BENCH, *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(report.read_text())


def test_every_panel_of_a_stress_report_has_a_bar_with_its_number_for_each_server(drawn, stressed):
    texts = drawn("stress", stressed)
    assert {"lodestone", "limit", "10000b", "1MiB"} <= set(texts)
    for figure in FIGURES:
        assert f"{figure.title}, {figure.unit}" in texts
        groups = bars(figure, stressed["summary"])
        assert groups
        heights = {f"{height:.3g}" for of in groups.values() for height in of.values()}
        assert heights <= set(texts), figure.title


def test_a_stress_report_without_the_process_of_a_server_has_no_panel_of_its_memory(
    drawn, stressed
):
    for line in stressed["summary"]:
        line |= {"peak_rss_bytes": None, "cpu_seconds_per_gb": None}
    texts = drawn("stress", stressed)
    assert "throughput, MB/s" in texts
    assert [text for text in texts if text.startswith(("CPU", "peak"))] == []


def test_the_matrix_draws_medians_with_their_ratios_and_the_sides_that_failed(drawn):
    figures = {"seconds": 8.0, "mapSeconds": 4.0, "reduceSeconds": 3.0, "cpuSeconds": 9.0}
    halved = {name: value / 2 for name, value in figures.items()}
    runs = [
        {
            "disk": "plain", "job": "sort", "round": 1, "side": side, "figures": of,
            "failure": "" if of else "another answer",
        }
        for side, of in {"plain": figures, "auto": halved, "remote": {}}.items()
    ]  # fmt: skip
    texts = drawn("matrix", ABOUT | {"runs": runs})
    panels = ["wall, s", "map stages, s", "reduce stages, s", "CPU, s"]
    assert [text for text in texts if text in panels] == panels
    assert texts.count("x 0.50") == texts.count("failed") == len(panels)


def test_waves_are_drawn_for_each_disk(drawn):
    def of_side(seconds: float) -> dict:
        names = ["seconds", "reduceSeconds"]
        spreads = {name: [seconds, seconds - 1, seconds + 1] for name in names}
        return spreads | {"ratios": {name: seconds / 8 for name in names}}

    sides = {"plain": of_side(8.0), "tuned": of_side(10.0), "remote": of_side(2.0)}
    rows = [
        {"disk": disk, "waves": waves, "base": "plain", "sides": sides}
        for disk in ("plain", "throttled")
        for waves in (4, 16)
    ]
    texts = drawn("waves", ABOUT | {"rows": rows})
    assert {"total, s, plain disk", "reduce stage, s, throttled disk", "4", "16"} <= set(texts)
    panels = 4
    assert texts.count("x 0.25") == texts.count("x 1.25") == 2 * panels


def test_a_sort_is_drawn_by_its_phases(drawn):
    phases = dict.fromkeys(["sample", "map", "gap", "reduce", "validate"], 1.0)
    runs = [{"side": side, "bytes": 2e9, "seconds": phases} for side in ("plain", "auto")]
    texts = drawn("sorting", ABOUT | {"runs": runs})
    assert {"plain Spark, 2,000 MB", "Lodestone, mode auto, 2,000 MB", *phases} <= set(texts)
