# SPDX-License-Identifier: Apache-2.0
"""Apache DataFusion Comet, the release for which there is an adapter."""

import subprocess
from pathlib import Path

from . import jvm
from .kept import kept
from .paths import ROOT

RELEASE = "0.12.0"
# The Spark release that it is for, and the plugin's jar beside it.
SPARK = "3.5.9"
FORMAT = "comet-0.12"
MANAGER = "org.apache.spark.shuffle.lodestone.comet.LodestoneCometShuffleManager"
ADAPTER = ROOT / "dist" / "jars" / "lodestone-comet-0.12-spark-3.5_2.12.jar"
ARTIFACT = f"org.apache.datafusion:comet-spark-spark3.5_2.12:{RELEASE}"
COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy"


def jar() -> Path:
    """Returns Comet's jar, fetched once, with its native library inside."""
    (found,) = kept(ROOT / ".cache" / f"comet-{RELEASE}", fetch).glob("*.jar")
    return found


def fetch(target: Path) -> None:
    options = [f"-Dartifact={ARTIFACT}", f"-DoutputDirectory={target}"]
    subprocess.run(
        ["mvn", "-q", "-B", "-Dstyle.color=never", COPY, *options], cwd=target, check=True
    )


def configuration() -> dict[str, str]:
    """Returns the settings of an application with Comet and Lodestone."""
    classpath = f"{jvm.classpath(SPARK)}:{ADAPTER}:{jar()}"
    return {
        "spark.shuffle.manager": MANAGER,
        "spark.plugins": "org.apache.spark.CometPlugin",
        "spark.memory.offHeap.enabled": "true",
        "spark.memory.offHeap.size": "1g",
        "spark.driver.extraClassPath": classpath,
        "spark.executor.extraClassPath": classpath,
    }


def shuffles_of(report: dict) -> list[dict]:
    """Returns the native shuffles of Comet in a report."""
    found = [one for one in report["shuffles"] if one["format"] == FORMAT]
    return [one for one in found if "ENGINE_SHUFFLE" not in one["reasons"]]
