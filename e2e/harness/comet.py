# SPDX-License-Identifier: Apache-2.0
"""Apache DataFusion Comet, in the releases for which there is an adapter."""

import subprocess
from dataclasses import dataclass
from pathlib import Path

from . import jvm
from .kept import kept
from .paths import ROOT, SPARK_LINES

MANAGER = "org.apache.spark.shuffle.lodestone.comet.LodestoneCometShuffleManager"
COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy"


@dataclass(frozen=True)
class Release:
    """A release of Comet, and the line of Spark and the release of Scala that it is for."""

    name: str
    line: str
    scala: str

    @property
    def series(self) -> str:
        """The part of the name that the adapter has."""
        return self.name.rsplit(".", 1)[0]

    @property
    def format(self) -> str:
        return f"comet-{self.series}"

    @property
    def adapter(self) -> Path:
        name = f"lodestone-comet-{self.series}-spark-{self.line}_{self.scala}.jar"
        return ROOT / "dist" / "jars" / name

    def jar(self) -> Path:
        """Returns Comet's jar, fetched once, with its native library inside."""
        (found,) = kept(ROOT / ".cache" / f"comet-{self.name}", self.fetch).glob("*.jar")
        return found

    def fetch(self, target: Path) -> None:
        artifact = f"org.apache.datafusion:comet-spark-spark{self.line}_{self.scala}:{self.name}"
        options = [f"-Dartifact={artifact}", f"-DoutputDirectory={target}"]
        subprocess.run(
            ["mvn", "-q", "-B", "-Dstyle.color=never", COPY, *options], cwd=target, check=True
        )


# By the release of Spark that tests run each with.
RELEASES = {
    SPARK_LINES[one.line]: one
    for one in (Release("0.12.0", "3.5", "2.12"), Release("1.2.0", "4.1", "2.13"))
}
LINES = tuple(one.line for one in RELEASES.values())


def configuration(spark_version: str) -> dict[str, str]:
    """Returns the settings of an application with Comet and Lodestone."""
    release = RELEASES[spark_version]
    classpath = f"{jvm.classpath(spark_version)}:{release.adapter}:{release.jar()}"
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
    formats = {one.format for one in RELEASES.values()}
    found = [one for one in report["shuffles"] if one["format"] in formats]
    return [one for one in found if "ENGINE_SHUFFLE" not in one["reasons"]]
