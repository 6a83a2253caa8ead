# SPDX-License-Identifier: Apache-2.0
"""TPC-H tables as Parquet, made once and kept."""

import subprocess
from pathlib import Path

from harness.kept import kept
from harness.paths import ROOT

GENERATOR = ROOT / ".venv-demo" / "bin" / "tpchgen-cli"
# The other one makes tables for tests, which do not need what the demo needs.
TEST_GENERATOR = ROOT / ".venv-test" / "bin" / "tpcgen-cli"


def make(scale_factor: int = 1) -> Path:
    """Returns the folder with the tables."""
    return made([GENERATOR, "parquet"], f"tpch-sf{scale_factor}", str(scale_factor))


def small(scale_factor: str, row_group: str) -> Path:
    """Returns the folder with tables in small row groups, so that a small table has many maps."""
    command = [TEST_GENERATOR, "tpch", "parquet", "--row-group-bytes", row_group]
    return made(command, f"tpch-sf{scale_factor}-{row_group}", scale_factor)


def made(command: list, name: str, scale_factor: str) -> Path:
    def fill(folder: Path) -> None:
        scale = ["--scale-factor", scale_factor, "--quiet", "--output-dir", folder]
        subprocess.run([*command, *scale], check=True)

    return kept(ROOT / ".cache" / name, fill)
