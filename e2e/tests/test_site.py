# SPDX-License-Identifier: Apache-2.0
"""The documentation as a site: it builds without a network, and asks no other server."""

import functools
import http.server
import shutil
import subprocess
import threading
from pathlib import Path

import pytest

from harness.chromium import chromium
from harness.hosts import network
from harness.paths import ROOT

PHONE = {"width": 360, "height": 740}
# Messages of a browser's console that a reader would have to do with.
BAD = ("error", "warning")


def build(root, folder) -> subprocess.CompletedProcess:
    """Builds in a network that reaches no other host."""
    program = ROOT / ".venv-site" / "bin" / "mkdocs"
    config = root / "deploy" / "site" / "mkdocs.yml"
    with network() as name:
        return subprocess.run(
            ["ip", "netns", "exec", name, program, "build", "--strict", "-f", config, "-d", folder],
            capture_output=True,
            text=True,
            timeout=120,
        )


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site") / "built"
    said = build(ROOT, folder)
    assert said.returncode == 0, said.stderr
    return folder


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    def handle_error(self, *_):
        """A browser that goes to the next page takes no more of the one before."""


@pytest.fixture(scope="module")
def address(site):
    """Serves the site on loopback."""
    handler = functools.partial(Quiet, directory=site)
    with Server(("127.0.0.1", 0), handler) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        serving.join()


@pytest.fixture(scope="module")
def browser():
    with chromium() as started:
        yield started


def test_every_page_fits_on_a_phone_shows_its_pictures_and_asks_no_other_server(
    site, address, browser
):
    page = browser.new_page(viewport=PHONE)
    asked, noted = [], []
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda message: message.type in BAD and noted.append(message.text))
    page.on("pageerror", lambda error: noted.append(str(error)))
    names = sorted(str(path.relative_to(site)) for path in site.rglob("*.html"))
    pages = [path for path in (ROOT / "docs").rglob("*.md")]
    assert len(names) > len(pages)
    for name in names:
        page.goto(address + name)
        assert page.evaluate("document.documentElement.scrollWidth") == PHONE["width"], name
        pictures = page.evaluate("[...document.images].map((i) => [i.naturalWidth, i.alt.length])")
        assert all(width > 0 and words > 20 for width, words in pictures), name
    assert [url for url in asked if not url.startswith(address)] == []
    assert noted == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_letters_stand_out_from_what_is_behind_them_in_both_schemes(scheme, address, browser):
    page = browser.new_page(color_scheme=scheme)
    page.goto(f"{address}beside-others.html")
    luminance = """(name) => {
        let at = document.querySelector(name), style = getComputedStyle(at);
        const of = (text) => text.match(/[\\d.]+/g).map(Number);
        const letters = of(style.color);
        while (at && (of(style.backgroundColor)[3] ?? 1) === 0) {
            at = at.parentElement; style = at && getComputedStyle(at);
        }
        const behind = at ? of(style.backgroundColor) : [255, 255, 255];
        const linear = (c) => c / 255 <= .04 ? c / 255 / 12.92 : ((c / 255 + .055) / 1.055) ** 2.4;
        const light = (c) => .2126 * linear(c[0]) + .7152 * linear(c[1]) + .0722 * linear(c[2]);
        const [low, high] = [light(letters), light(behind)].sort((a, b) => a - b);
        return (high + .05) / (low + .05);
    }"""
    for name in ("main p, [role=main] p", "table td", "h1"):
        assert page.evaluate(luminance, name) >= 4.5, name


def test_a_reader_finds_a_page_by_a_word_in_it(address, browser):
    page = browser.new_page(viewport={"width": 1200, "height": 900})
    with page.expect_console_message(lambda message: "search ready" in message.text):
        page.goto(f"{address}index.html")
    page.keyboard.press("s")
    query = page.locator("#mkdocs-search-query")
    query.wait_for()
    query.press_sequentially("FETCH_OVERLOADED")
    page.wait_for_selector("#mkdocs-search-results a[href*='reasons']")


def copied_with_links(root: Path, copy: Path, copied: list[str]) -> None:
    """Makes a copy of the repository, with links for all but some of its folders."""
    copy.mkdir()
    for entry in root.iterdir():
        name = str(entry.relative_to(ROOT))
        target = copy / entry.name
        if name in copied:
            shutil.copytree(entry, target)
        elif any(one.startswith(f"{name}/") for one in copied):
            copied_with_links(entry, target, copied)
        else:
            target.symlink_to(entry)


def test_a_link_to_a_section_that_is_gone_stops_the_build(tmp_path):
    copied_with_links(ROOT, tmp_path / "copy", copied=["docs", "deploy/site"])
    assert build(tmp_path / "copy", tmp_path / "built").returncode == 0
    with (tmp_path / "copy" / "docs" / "tune.md").open("a") as page:
        page.write("\nSee [the end](operations.md#gone) and [a page](gone.md).\n")
    said = build(tmp_path / "copy", tmp_path / "built")
    assert said.returncode != 0
    assert "#gone" in said.stderr and "gone.md" in said.stderr
