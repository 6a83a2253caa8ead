# SPDX-License-Identifier: Apache-2.0
"""How Spark's JVMs are started for a life of a minute or two."""

from pathlib import Path

from .paths import JOBS_JAR, ROOT, plugin_jar

# In a JVM that lives for a minute or two the optimising compiler takes more time than it saves.
SHORT_LIVED = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
# The verifier takes a tenth of the time; test_linkage has it look at every class of ours. What the
# JVM has to say goes where its log goes.
OPTIONS = (
    f"{' '.join(SHORT_LIVED)} -XX:+UseTransparentHugePages"
    " -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
    " -Xlog:disable -Xlog:all=error:stderr"
)


def options(spark_version: str) -> str:
    """Options of drivers and executors."""
    archive = archive_of(spark_version)
    return f"{OPTIONS} -XX:SharedArchiveFile={archive}" if archive.exists() else OPTIONS


def classpath(spark_version: str) -> str:
    """What stands before Spark's own jars, with Lodestone and without: nothing but the key turns it
    on."""
    return f"{JOBS_JAR}:{plugin_jar(spark_version)}"


def archive_of(spark_version: str) -> Path:
    """The classes that a JVM of this release loads, if `harness.archive` has written them."""
    return ROOT / ".cache" / f"classes-{spark_version}.jsa"
