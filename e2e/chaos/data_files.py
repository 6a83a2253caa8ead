# SPDX-License-Identifier: Apache-2.0
"""What a service has on its disks."""

import os
from pathlib import Path


def data_files(directory: Path) -> list[Path]:
    """In order. A service removes directories while they are looked through: what is gone then is
    not there."""
    found = (
        Path(folder, name)
        for folder, _, names in os.walk(directory)
        for name in names
        if name.endswith(".data")
    )
    return sorted(found)
