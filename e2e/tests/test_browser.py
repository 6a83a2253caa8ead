# SPDX-License-Identifier: Apache-2.0
"""Without a browser, only the tests that need one fail, and their message says how to get it."""

import os
import subprocess

import pytest

from harness import chromium
from harness.paths import ROOT

# Nothing listens on this port: each download fails at once.
NO_REGISTRY = "http://127.0.0.1:9"


def test_a_browser_that_cannot_be_fetched_is_reported_and_does_not_stop_make(tmp_path):
    ready = tmp_path / "browser" / ".ready"
    npm = {
        "npm_config_registry": NO_REGISTRY,
        "npm_config_fetch_retries": "0",
        "npm_config_cache": str(tmp_path / "cache"),
    }
    # This test may itself run below a make, whose settings the other one must not get.
    ours = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    words = ["make", "--no-print-directory", "browser", f"CHROMIUM={ready}"]
    done = subprocess.run(
        words, cwd=ROOT, env=ours | npm, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    assert done.returncode == 0, done.stdout
    assert "ECONNREFUSED" in done.stdout
    assert "No browser" in done.stdout
    assert "`make browser` tries again" in done.stdout
    assert not ready.exists()


def test_a_test_without_its_browser_says_how_to_get_one(tmp_path, monkeypatch):
    monkeypatch.setattr(chromium, "FOLDER", tmp_path / "bin")
    with pytest.raises(chromium.NoBrowser, match="`make browser`"), chromium.chromium():
        pass
