# SPDX-License-Identifier: Apache-2.0
"""TPC-H tables as Parquet, made once and kept."""

import subprocess
from pathlib import Path

from harness.kept import kept
from harness.paths import ROOT

GENERATOR = ROOT / ".venv-demo" / "bin" / "tpchgen-cli"


def make(scale_factor: int = 1) -> Path:
    """Returns the folder with the tables."""
    scale = ["--scale-factor", str(scale_factor)]

    def fill(folder: Path) -> None:
        subprocess.run(
            [GENERATOR, "parquet", *scale, "--quiet", "--output-dir", folder], check=True
        )

    return kept(ROOT / ".cache" / f"tpch-sf{scale_factor}", fill)
