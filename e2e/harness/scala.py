# SPDX-License-Identifier: Apache-2.0
"""Spark on another release of Scala than PySpark has it."""

import subprocess
from pathlib import Path

COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"


def fill(target: Path, pyspark: Path, pom: Path) -> None:
    """Makes a folder like that of a PySpark, with the jars that a plugin is compiled against.
    Python and scripts are the same for both."""
    for one in pyspark.iterdir():
        if one.name != "jars":
            (target / one.name).symlink_to(one)
    options = ["-DincludeScope=provided", f"-DoutputDirectory={target / 'jars'}"]
    command = ["mvn", "-q", "-B", "-Dstyle.color=never", "-f", pom, COPY, *options]
    subprocess.run(command, check=True)
