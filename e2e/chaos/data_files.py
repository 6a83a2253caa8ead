# SPDX-License-Identifier: Apache-2.0
"""The data files of a service."""

import os
from pathlib import Path


def data_files(directory: Path) -> list[Path]:
    """Returns the files in order. A service may remove directories during the walk, which skips
    them."""
    found = (
        Path(folder, name)
        for folder, _, names in os.walk(directory)
        for name in names
        if name.endswith(".data")
    )
    return sorted(found)
