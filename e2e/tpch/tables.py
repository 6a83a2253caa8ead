# SPDX-License-Identifier: Apache-2.0
"""TPC-H tables as Parquet, made once and kept."""

import shutil
import subprocess
from pathlib import Path

from harness.paths import ROOT

GENERATOR = ROOT / ".venv-demo" / "bin" / "tpchgen-cli"
NAMES = "customer lineitem nation orders part partsupp region supplier".split()


def make(scale_factor: int = 1) -> Path:
    """The folder with the tables. It appears whole or not at all."""
    tables = ROOT / ".cache" / f"tpch-sf{scale_factor}"
    if all((tables / f"{name}.parquet").exists() for name in NAMES):
        return tables
    unfinished = tables.with_suffix(".unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    scale = ["--scale-factor", str(scale_factor)]
    subprocess.run(
        [GENERATOR, "parquet", *scale, "--quiet", "--output-dir", unfinished], check=True
    )
    shutil.rmtree(tables, ignore_errors=True)
    unfinished.rename(tables)
    return tables
