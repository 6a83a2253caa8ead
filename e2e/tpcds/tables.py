# SPDX-License-Identifier: Apache-2.0
"""TPC-DS tables as Parquet, made once and kept."""

import subprocess
from pathlib import Path

from harness.kept import kept
from harness.paths import ROOT

GENERATOR = ROOT / ".venv-test" / "bin" / "tpcgen-cli"
# The generator's own choice.
ROW_GROUP = "7MiB"


def make(scale_factor: str = "1", row_group: str = ROW_GROUP) -> Path:
    """Returns the folder with the tables. No map task reads less than a row group: small ones give
    a small table many map tasks."""
    scale = ["--scale-factor", scale_factor, "--row-group-bytes", row_group]

    def fill(folder: Path) -> None:
        command = [GENERATOR, "tpcds", "parquet", *scale, "--quiet", "--output-dir", folder]
        subprocess.run(command, check=True)

    return kept(ROOT / ".cache" / f"tpcds-sf{scale_factor}-{row_group}", fill)
