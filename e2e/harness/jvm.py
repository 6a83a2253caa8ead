# SPDX-License-Identifier: Apache-2.0
"""The options of Spark's JVMs, for a life of a minute or two."""

from pathlib import Path

from .paths import JOBS_JAR, ROOT, plugin_jar

# In a JVM that lives for a minute or two the optimising compiler takes more time than it saves.
SHORT_LIVED = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
# The verifier takes a tenth of the time; test_linkage has it look at every class of ours. Messages
# of the JVM go to its log.
OPTIONS = (
    f"{' '.join(SHORT_LIVED)} -XX:+UseTransparentHugePages"
    " -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
    " -Xlog:disable -Xlog:all=error:stderr"
)


def options(spark_version: str) -> str:
    """Returns the options of drivers and executors."""
    archive = archive_of(spark_version)
    return f"{OPTIONS} -XX:SharedArchiveFile={archive}" if archive.exists() else OPTIONS


def classpath(spark_version: str, has_plugin: bool = True) -> str:
    """Returns the class path before Spark's own jars. The plugin's jar is there with Lodestone and
    without, because only the key switches it on; but not in stock Spark."""
    return f"{JOBS_JAR}:{plugin_jar(spark_version)}" if has_plugin else str(JOBS_JAR)


def archive_of(spark_version: str) -> Path:
    """Returns the archive of the classes that a JVM of this release loads, if `harness.archive` has
    written it."""
    return ROOT / ".cache" / f"classes-{spark_version}.jsa"
