# SPDX-License-Identifier: Apache-2.0
"""The command `lodestone`: the program of this package."""

import os
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Optional

PROGRAM = Path(__file__).resolve().parent / "bin" / "lodestone"
# Commands that look at the Spark in SPARK_HOME.
OF_SPARK = (["conf"], ["doctor"])


def main() -> None:
    environment = dict(os.environ)
    if sys.argv[1:2] in OF_SPARK:
        home = submitted_home() or spark_home()
        environment.update({"SPARK_HOME": str(home)} if home else {})
    os.execve(PROGRAM, ["lodestone", *sys.argv[1:]], environment)


def submitted_home() -> Optional[Path]:
    """Returns the folder of the Spark whose `spark-submit` a shell finds, if it is no script of
    PySpark."""
    if os.environ.get("SPARK_HOME"):
        return None
    found = shutil.which("spark-submit")
    home = Path(found).resolve().parents[1] if found else None
    return home if home and (home / "jars").is_dir() else None


def spark_home() -> Optional[Path]:
    """Returns the folder of the Spark that PySpark starts, if there is one."""
    if os.environ.get("SPARK_HOME"):
        return Path(os.environ["SPARK_HOME"])
    found = find_spec("pyspark")
    if found is None or found.origin is None:
        return None
    package = Path(found.origin).resolve().parent
    # A distribution of its own, which the installation of PySpark has fetched, comes first.
    homes = [package / "spark-distribution", package]
    return next((home for home in homes if (home / "jars").is_dir()), None)
