# SPDX-License-Identifier: Apache-2.0
"""The paths of a built checkout."""

from pathlib import Path

from . import scala
from .kept import kept

ROOT = Path(__file__).resolve().parents[2]
DAEMON = ROOT / "dist" / "lodestone"
DAEMON_AARCH64 = ROOT / "dist" / "linux-aarch64" / "lodestone"
SORT = ROOT / "dist" / "lodestone-sort"
BENCH = ROOT / "dist" / "lodestone-bench"
JOBS_JAR = ROOT / "dist" / "jars" / "lodestone-e2e-jobs.jar"

# The newest release of each Spark line that a plugin jar claims.
SPARK_LINES = {"3.5": "3.5.9", "4.0": "4.0.5", "4.1": "4.1.4", "4.2": "4.2.1", "4.3": "4.3.0"}
# Spark 3.5 exists for two releases of Scala, and PySpark has the older one.
SCALA_213 = "-scala-2.13"
SPARK_LINES |= {line + SCALA_213: SPARK_LINES[line] + SCALA_213 for line in ["3.5"]}
EVERY_LINE = list(SPARK_LINES)
# A test that names no line (mark `lines`) runs on one of these, with --all-lines on all of them:
# the oldest, and one that the jar for Spark 4 is compiled against.
USUAL_LINES = ["3.5", "4.1"]
# The jar for Spark 4 links against these as it does against 4.1 and 4.3 (`test_linkage`): tests run
# there only with --all-lines, and many on no others than the usual lines.
SELDOM = ["4.0", "4.2", "3.5" + SCALA_213]
NOT_USUAL = [line for line in EVERY_LINE if line not in USUAL_LINES]
# The same for tests that take long, and of which one line shows what the other usual one does.
NOT_35, NOT_41 = ([line for line in EVERY_LINE if line != one] for one in USUAL_LINES)
# The newest release of each plugin jar's line, which the demo shows.
PLUGIN_LINES = ["3.5.9", "4.3.0"]
YARN_JAR = ROOT / "dist" / "jars" / "lodestone-yarn.jar"


def plugin_jar(spark_version: str) -> Path:
    """Returns the plugin jar for a Spark release."""
    of_35 = "3.5_2.13" if spark_version.endswith(SCALA_213) else "3.5_2.12"
    name = of_35 if spark_version.startswith("3.5") else "4_2.13"
    return ROOT / "dist" / "jars" / f"lodestone-spark-{name}.jar"


def python_of(spark_version: str) -> Path:
    """Returns the interpreter of the virtual environment that holds this PySpark."""
    return ROOT / f".venv-{spark_version.removesuffix(SCALA_213)}" / "bin" / "python"


def spark_home(spark_version: str) -> Path:
    """Returns the folder of Spark's scripts and jars, as PySpark has it."""
    (home,) = python_of(spark_version).parents[1].glob("lib/python3*/site-packages/pyspark")
    if not spark_version.endswith(SCALA_213):
        return home
    kept_as = ROOT / ".cache" / f"spark-{spark_version}"
    pom = ROOT / "client" / f"spark-3.5{SCALA_213}" / "pom.xml"
    return kept(kept_as, lambda target: scala.fill(target, home, pom))
