# SPDX-License-Identifier: Apache-2.0
"""Waits for files that can be read."""

import selectors


def readable(files: list, timeout_s: float | None = None) -> list:
    """Returns the files that can be read, or have ended. Unlike `select.select` it takes
    descriptors above 1,023: the disks of tests have that many files open."""
    with selectors.PollSelector() as selector:
        for file in files:
            selector.register(file, selectors.EVENT_READ)
        return [key.fileobj for key, _ in selector.select(timeout_s)]
