# SPDX-License-Identifier: Apache-2.0
"""The sizes that the page about installation names, for a build without the daemon for ARM."""

import re

import pytest

from .paths import DAEMON_AARCH64, ROOT

TOLERANCE = 0.2


def check_documented_size(pattern: str, size_bytes: int) -> None:
    """Checks that a number of megabytes on the page is about the size."""
    if DAEMON_AARCH64.exists():
        pytest.skip("the jars have two daemons inside")
    [documented] = re.findall(pattern, (ROOT / "docs" / "deployment.md").read_text())
    megabytes = size_bytes / 1e6
    assert abs(megabytes - int(documented)) <= TOLERANCE * int(documented), megabytes
