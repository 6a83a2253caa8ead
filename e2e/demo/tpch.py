# SPDX-License-Identifier: Apache-2.0
"""TPC-H tables at scale factor 1 as Parquet, made once and kept."""

import shutil
import subprocess
from pathlib import Path

from harness.paths import ROOT

TABLES = ROOT / ".cache" / "tpch-sf1"
GENERATOR = ROOT / ".venv-demo" / "bin" / "tpchgen-cli"
NAMES = "customer lineitem nation orders part partsupp region supplier".split()


def are_there() -> bool:
    return all((TABLES / f"{name}.parquet").exists() for name in NAMES)


def make() -> Path:
    """The folder with the tables. It appears whole or not at all."""
    if are_there():
        return TABLES
    unfinished = TABLES.with_suffix(".unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    subprocess.run(
        [GENERATOR, "parquet", "--scale-factor", "1", "--quiet", "--output-dir", unfinished],
        check=True,
    )
    shutil.rmtree(TABLES, ignore_errors=True)
    unfinished.rename(TABLES)
    return TABLES
