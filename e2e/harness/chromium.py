# SPDX-License-Identifier: Apache-2.0
"""Headless Chromium as `make test` installs it, with the libraries that came with it."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, sync_playwright

from .paths import ROOT

FOLDER = ROOT / ".cache" / "chromium" / "bin"


class NoBrowser(Exception):
    """`make test` could not fetch the browser, and said why."""


@contextmanager
def chromium() -> Iterator[Browser]:
    """Starts a browser that ends with the context."""
    if not (FOLDER.parent / ".ready").exists():
        raise NoBrowser(
            f"{FOLDER} has no headless Chromium: `make browser` fetches it, or says why not"
        )
    libraries = {"LD_LIBRARY_PATH": str(FOLDER / "lib")}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=FOLDER / "headless-shell", env=os.environ | libraries
        )
        yield browser
        browser.close()
