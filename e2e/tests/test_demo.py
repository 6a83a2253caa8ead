# SPDX-License-Identifier: Apache-2.0
"""`make demo`: its output, and its page as a person finds it in a browser."""

import copy
import re

import pytest

from demo import __main__ as demo
from demo import gains, page, summary
from demo.comparison import compare
from demo.created_files import CreatedFiles
from demo.jobs import ALL
from demo.session import Setting
from harness.chromium import chromium
from harness.spark_process import IN_THE_DRIVER

# The jobs that need no tables, in sizes of a test: mode auto merges 10,000 blocks and more.
SIZES = {
    "sort": {"maps": 6, "records": 2000, "partitions": 20},
    "large": {"maps": 4, "records": 5000, "partitions": 4},
    "small": {"maps": 105, "records": 800, "partitions": 100},
}
MIN_BLOCKS = 10_000
JOBS = [job for job in ALL if job.name in SIZES]
SIDES = ("plain", "lodestone")
PHONE = {"width": 360, "height": 740}
TABLET = {"width": 800, "height": 1100}
DESK = {"width": 1280, "height": 800}

pytestmark = pytest.mark.lines("4.1")


@pytest.fixture(scope="module")
def result(spark, tmp_path_factory):
    """Runs the demo's own code on real Spark, once for all tests."""
    folder = tmp_path_factory.mktemp("demo")
    (folder / "no-tables").mkdir()
    setting = Setting(spark, folder / "no-tables", SIZES, IN_THE_DRIVER, folder)
    return demo.result_of([compare(setting, JOBS)])


@pytest.fixture(scope="module")
def path(result, tmp_path_factory):
    return demo.write(result, tmp_path_factory.mktemp("page"))


@pytest.fixture(scope="module")
def browser():
    with chromium() as started:
        yield started


@pytest.fixture
def open_page(browser, path):
    """Opens the page. At its end the test fails if the page logged anything or asked for a file."""
    troubles, contexts = [], []

    def opened(width_and_height=DESK, **options):
        context = browser.new_context(viewport=width_and_height, offline=True, **options)
        contexts.append(context)
        tab = context.new_page()
        tab.on("console", lambda message: troubles.append(message.text))
        tab.on("pageerror", lambda error: troubles.append(str(error)))
        tab.on("request", lambda request: troubles.append(request.url))
        tab.goto(path.as_uri())
        assert troubles.pop(0) == path.as_uri()
        return tab

    yield opened
    for context in contexts:
        context.close()
    assert troubles == []


def job_of(result: dict, name: str) -> dict:
    return next(job for job in result["comparisons"][0]["jobs"] if job["name"] == name)


def number(text: str) -> float:
    return float(text.replace(",", ""))


def test_the_one_key_of_the_readme_merges_small_blocks_and_leaves_large_ones(result):
    small, large = job_of(result, "small"), job_of(result, "large")
    (merged,) = small["shuffles"]
    assert gains.is_merged(merged)
    assert merged["mergedBlocksRead"] > MIN_BLOCKS
    assert [gains.is_merged(shuffle) for shuffle in large["shuffles"]] == [False]
    assert all(job["difference"] == "" for job in (small, large))
    # Plain Spark makes a file for each block that is not empty, and reads each of them.
    assert small["plain"]["reads"] == merged["mergedBlocksRead"]
    assert small["plain"]["filesCreated"] > MIN_BLOCKS
    assert small["lodestone"]["filesCreated"] < MIN_BLOCKS / 10
    assert small["lodestone"]["reads"] == merged["chunksRead"] < MIN_BLOCKS / 10
    assert re.match(r"lodestone: 1 of \d+ shuffles merged", result["comparisons"][0]["lastLine"])


def test_the_last_lines_name_the_gains_with_reasons_and_then_the_page(result, tmp_path, capsys):
    assert demo.report(result, tmp_path, seconds=1) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == str(tmp_path / "demo.html")
    said = " ".join(" ".join(lines).split())
    small = job_of(result, "small")
    blocks = small["plain"]["reads"]
    assert f"Mode auto merged 1 of 3 shuffles: {blocks:,} blocks became" in said
    for name in ("Time", "CPU time", "Files created", "Reads"):
        assert any(re.match(rf"{name} +[\d,.]+( s)? -> [\d,.]+( s)? \(x ", line) for line in lines)
    row = next(line for line in lines if line.startswith("Small blocks "))
    assert f"{small['plain']['filesCreated']:,}" in row


def test_a_wrong_answer_fails_the_demo_and_is_named(result, tmp_path, capsys):
    wrong = copy.deepcopy(result)
    job_of(wrong, "sort")["difference"] = "1 rows on plain Spark, 0 on Lodestone"
    assert demo.report(wrong, tmp_path, seconds=1) == 1
    assert "FAILED: Spark 4.1.4, Sort: 1 rows on plain Spark" in capsys.readouterr().out
    assert "Some answers were different: Sort on Spark 4.1.4." in page.of(wrong)


def test_a_job_that_takes_longer_is_called_slower_and_not_a_gain(result):
    slow = copy.deepcopy(result)
    (comparison,) = slow["comparisons"]
    for name, lodestone in (("sort", 2.4), ("large", 2.1), ("small", 1.0)):
        job_of(slow, name)["plain"]["seconds"] = 2.0
        job_of(slow, name)["lodestone"]["seconds"] = lodestone
    lines = summary.of(comparison).splitlines()
    assert "Slower         Sort (x 1.20)" in lines
    assert "No difference  Large blocks (x 1.05)" in lines
    assert "Lodestone took longer: Sort (x 1.20)." in page.of(slow)


def test_every_job_has_bars_as_long_as_its_figures(result, open_page):
    tab = open_page()
    for figure in ("seconds", "cpuSeconds"):
        chart = f'svg.bars[data-figure="{figure}"]'
        widths = tab.eval_on_selector_all(
            f"{chart} rect",
            """bars => bars.map(
                b => [b.dataset.job, b.dataset.side, b.getBoundingClientRect().width])""",
        )
        drawn = {(job, side): width for job, side, width in widths}
        values = {(job.name, side): job_of(result, job.name)[side][figure] for job in JOBS
                  for side in SIDES}  # fmt: skip
        longest = max(values, key=values.get)
        assert drawn[longest] > 100
        scale = drawn[longest] / values[longest]
        assert drawn == pytest.approx({key: scale * v for key, v in values.items()}, abs=1)


def test_the_numbers_of_the_page_are_those_of_the_json_beside_it(result, path, open_page):
    tab = open_page()
    inside = tab.evaluate("() => JSON.parse(document.getElementById('result').textContent)")
    assert inside == result == demo.json.loads(path.with_name("demo.json").read_text())
    cells = tab.eval_on_selector_all(
        "td[data-figure], .total",
        """all => all.map(
            c => [c.dataset.job || 'all', c.dataset.side, c.dataset.figure, c.innerText])""",
    )
    # Each job, their sum, and the sum at the top of the page.
    assert len(cells) == (len(JOBS) + 2) * len(SIDES) * len(gains.FIGURES)
    for name, side, figure, text in cells:
        chosen = JOBS if name == "all" else [job for job in JOBS if job.name == name]
        value = sum(job_of(result, job.name)[side][figure] for job in chosen)
        assert number(text) == pytest.approx(value, abs=0.051), (name, side, figure)
    small = job_of(result, "small")
    shown = tab.locator('[data-picture="plainReads"]').inner_text()
    assert number(shown) == small["plain"]["reads"]
    assert (
        number(tab.locator('[data-picture="chunks"]').inner_text()) == small["lodestone"]["reads"]
    )


@pytest.mark.parametrize("screen", [PHONE, TABLET, DESK], ids=["phone", "tablet", "desk"])
def test_the_page_fits_every_screen_in_light_and_dark(screen, open_page):
    backgrounds = set()
    for scheme in ("light", "dark"):
        tab = open_page(screen, color_scheme=scheme, is_mobile=screen == PHONE)
        too_wide = tab.evaluate(
            """width => [...document.body.querySelectorAll('*')]
                .filter(e => e.getBoundingClientRect().right > width + 1 && !e.closest('thead'))
                .map(e => e.outerHTML.slice(0, 200))""",
            screen["width"],
        )
        assert too_wide == []
        assert tab.evaluate("document.documentElement.scrollWidth") <= screen["width"]
        backgrounds.add(tab.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert len(backgrounds) == 2


def test_a_screen_reader_finds_a_name_and_the_numbers_of_every_picture(result, open_page):
    tab = open_page()
    pictures = tab.get_by_role("img")
    assert pictures.count() == 4
    tree = tab.locator("body").aria_snapshot()
    small = job_of(result, "small")
    assert f"Small blocks: plain Spark {small['plain']['seconds']:.1f} s" in tree
    assert tab.get_by_role("img", name="reduce task reads one row").count() == 1
    # Where tables become lists, on phones, they stay tables for a screen reader.
    assert open_page(PHONE).get_by_role("table").count() == 2
    assert tab.get_by_role("heading", level=1).count() == 1


def test_files_that_exist_for_a_moment_only_are_counted(tmp_path):
    (tmp_path / "before").touch()
    files = CreatedFiles(tmp_path)
    for name in ("a", "b"):
        (tmp_path / name).touch()
        (tmp_path / name).unlink()
    (tmp_path / "new" / "deep").mkdir(parents=True)
    assert files.count() == 2
    (tmp_path / "new" / "deep" / "c").touch()
    (tmp_path / "new" / "deep" / "c").rename(tmp_path / "d")
    assert files.count() == 3
    (tmp_path / "new" / "e").touch()
    assert files.count() == 4
    files.close()
    assert files.is_exact
