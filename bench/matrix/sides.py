# SPDX-License-Identifier: Apache-2.0
"""The sides that are compared: plain Spark, and its competitors. A side is a row of the table;
everything else is the same for all."""

import os
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from harness import comet
from harness.paths import ROOT, plugin_jar, spark_home
from harness.spark_process import BOTH_EXECUTORS, MANAGER, configuration

BENCH = ROOT / "bench"
# The resolved path, because daemons use it for their directories.
CACHE = (ROOT / ".cache" / "bench").resolve()
# A container with one core gets this collector from the JVM, and it has no threads of its own that
# blur the CPU seconds.
JVM_OPTIONS = "-XX:+UseSerialGC"
# An environment variable with more options for executors, such as a profiler.
EXECUTOR_OPTIONS = "BENCH_EXECUTOR_OPTIONS"
YARN_JAR = "spark-yarn_"
CLASS_PATHS = ("spark.driver.extraClassPath", "spark.executor.extraClassPath")


@dataclass(frozen=True)
class Side:
    """One side.

    `service`: Spark's own shuffle service runs beside it. `pushes`: it uses the harness that lets
    stock Spark push. `daemons`: the memory of each daemon of Lodestone's that the bench starts for
    it; without any, the plugin starts one. `throttled_daemons`: their memory on the throttled disk,
    where jobs are small, if it differs. `is_before`: it has the plugin of the checkout that
    `--before` names. `has_comet`: native code of Comet runs the queries.
    """

    name: str
    title: str
    conf: dict[str, str] = field(default_factory=dict)
    service: bool = False
    pushes: bool = False
    daemons: tuple[str, ...] = ()
    throttled_daemons: tuple[str, ...] = ()
    is_before: bool = False
    has_comet: bool = False

    def daemons_on(self, disk: str) -> tuple[str, ...]:
        """Returns the memory of each daemon that the bench starts on this disk."""
        is_other = disk == "throttled" and self.throttled_daemons
        return self.throttled_daemons if is_other else self.daemons


# On both disks less than the data of the sort, so that the daemon has to write.
LITTLE = {"daemons": ("1g",), "throttled_daemons": ("32m",)}
LODESTONE = {"spark.shuffle.manager": MANAGER}
MERGE = LODESTONE | {"spark.lodestone.mode": "merge"}
REMOTE = LODESTONE | {"spark.lodestone.mode": "remote"}
NEAR = {"spark.lodestone.nearReads": "true"}
# Sides with Comet are compared with this one.
COMET = "comet"
COMETS_OWN = {
    "spark.shuffle.manager": "org.apache.spark.sql.comet.execution.shuffle.CometShuffleManager"
}
ALL = [
    Side("plain", "plain Spark"),
    # Up to 200 partitions, each map task of plain Spark writes a file for each partition, unless
    # this key forbids it.
    Side(
        "tuned",
        "plain Spark that never writes a file per partition",
        {"spark.shuffle.sort.bypassMergeThreshold": "1"},
    ),
    Side("ess", "Spark with its shuffle service", service=True),
    Side("push", "Spark's push-based shuffle", service=True, pushes=True),
    Side("lodestone", "Lodestone, every shuffle", MERGE),
    Side("auto", "Lodestone", LODESTONE),
    Side("before", "Lodestone of another checkout", LODESTONE, is_before=True),
    Side("merge-before", "Lodestone of another checkout, every shuffle", MERGE, is_before=True),
    Side("remote", "Lodestone, remote", REMOTE),
    Side("near", "Lodestone, near reads", LODESTONE | NEAR),
    Side("remote-near", "Lodestone, remote, near reads", REMOTE | NEAR),
    Side("remote-before", "Lodestone of another checkout, remote", REMOTE, is_before=True),
    Side("two", "Lodestone, remote, two services", REMOTE, daemons=("3g", "3g")),
    Side(
        "copies",
        "Lodestone, remote, two replicas",
        REMOTE | {"spark.lodestone.replicas": "2"},
        daemons=("3g", "3g"),
    ),
    Side("tight", "Lodestone, remote, little memory", REMOTE, **LITTLE),
    Side("little", "Lodestone, every shuffle, little memory", MERGE, **LITTLE),
    # No block is small enough to be pushed: this measures the writer and the reader without
    # merging.
    Side(
        "unmerged", "Lodestone, nothing merged", MERGE | {"spark.lodestone.push.maxBlockSize": "1b"}
    ),
    Side(COMET, "Comet, its own shuffle", COMETS_OWN, has_comet=True),
    Side(
        "comet-merge",
        "Comet, merged by Lodestone",
        {"spark.lodestone.mode": "merge"},
        has_comet=True,
    ),
    Side(
        "comet-remote",
        "Comet, Lodestone, remote",
        {"spark.lodestone.mode": "remote"},
        has_comet=True,
    ),
]
# The sides of plain Spark that Lodestone is compared with: ratios are to the faster one
# (`summary.opponent`).
OPPONENTS = ("plain", "tuned")
# The default. Each side is an application that stays up and needs up to 4 GB: a machine has no
# memory for all of them at once.
USUAL = [*OPPONENTS, "lodestone", "auto", "remote"]
BY_NAME = {side.name: side for side in ALL}
# The first one is the default, as in Spark.
CODECS = ("lz4", "zstd")


@dataclass(frozen=True)
class Setting:
    """The settings that all sides share: the Spark release, its executors, and how their blocks are
    read and compressed."""

    spark: str
    executors: int
    cores: int
    memory_mb: int
    # As if each executor were a host of its own: none opens another one's files.
    network_reads: bool
    tables: Path
    # A built checkout of another commit.
    before: Path | None = None
    codec: str = CODECS[0]

    @property
    def master(self) -> str:
        return f"local-cluster[{self.executors},{self.cores},{self.memory_mb}]"


def settings(
    side: Side, setting: Setting, folder: Path, service_port: int = 0, daemons: Sequence[str] = ()
) -> dict[str, str]:
    """Returns the configuration of a side's application."""
    more_options = os.environ.get(EXECUTOR_OPTIONS, "").split()
    conf = configuration(setting.spark, folder, lodestone=False) | BOTH_EXECUTORS
    conf |= {
        "spark.app.name": f"Lodestone bench: {side.name}",
        "spark.master": setting.master,
        "spark.cores.max": str(setting.executors * setting.cores),
        "spark.executor.cores": str(setting.cores),
        "spark.executor.memory": f"{setting.memory_mb}m",
        "spark.driver.extraJavaOptions": JVM_OPTIONS,
        "spark.executor.extraJavaOptions": " ".join([JVM_OPTIONS, *more_options]),
        "spark.sql.adaptive.enabled": "true",
        "spark.sql.shuffle.partitions": "200",
        # Many maps: small blocks, as a large cluster has them.
        "spark.sql.files.maxPartitionBytes": "32m",
        "spark.io.compression.codec": setting.codec,
    }
    if setting.network_reads:
        conf |= {"spark.shuffle.readHostLocalDisk": "false"}
    if side.service:
        conf |= {
            "spark.shuffle.service.enabled": "true",
            "spark.shuffle.service.port": str(service_port),
        }
    if daemons:
        conf |= {"spark.lodestone.services": ",".join(daemons)}
    if side.pushes:
        conf |= pushing(conf, setting)
    if side.is_before:
        conf |= of_before(conf, setting)
    if side.has_comet:
        conf |= comet.configuration(setting.spark)
    return conf | side.conf


def of_before(conf: dict[str, str], setting: Setting) -> dict[str, str]:
    """Returns the class paths with the other checkout's plugin in place of this one's."""
    here = plugin_jar(setting.spark)
    there = setting.before / here.relative_to(ROOT)
    return {path: conf[path].replace(str(here), str(there)) for path in CLASS_PATHS}


def pushing(conf: dict[str, str], setting: Setting) -> dict[str, str]:
    """Returns the settings with which stock Spark pushes through `bench/push`."""
    classes = push_classes(setting.spark)
    more = {
        "spark.master": "yarn",
        "spark.shuffle.push.enabled": "true",
        # By default Spark does not wait for the pushes of a shuffle below 500 MB, and then merges
        # next to nothing.
        "spark.shuffle.push.minShuffleSizeToWait": "0",
        "spark.bench.workers": str(setting.executors),
        "spark.bench.workerCores": str(setting.cores),
        "spark.bench.workerMemoryMb": str(setting.memory_mb),
        **{path: f"{classes}:{conf[path]}" for path in CLASS_PATHS},
    }
    if setting.network_reads:
        more["spark.bench.mergerHost"] = "localhost"
    return more


def push_classes(spark: str) -> Path:
    """Compiles the harness for this Spark release, and returns its classes."""
    classes = CACHE / f"push-{spark}"
    registered = classes / "META-INF" / "services"
    registered.mkdir(parents=True, exist_ok=True)
    source = BENCH / "push" / "StockPushCluster.java"
    jars = f"{spark_home(spark)}/jars/*"
    subprocess.run(["javac", "-nowarn", "-cp", jars, "-d", classes, source], check=True)
    (package,) = re.findall(r"^package ([\w.]+);", source.read_text(), re.MULTILINE)
    interface = registered / "org.apache.spark.scheduler.ExternalClusterManager"
    interface.write_text(f"{package}.{source.stem}\n")
    return classes


def home(side: Side, spark: str) -> Path:
    """Returns Spark's installation. For the side that pushes it is one without YARN, whose own
    cluster manager would take the master `yarn`."""
    installed = spark_home(spark)
    if not side.pushes:
        return installed
    without = CACHE / f"spark-{spark}-without-yarn"
    jars = without / "jars"
    jars.mkdir(parents=True, exist_ok=True)
    for entry in installed.iterdir():
        if entry.name not in ("jars", "work"):
            link(without / entry.name, entry)
    for jar in (installed / "jars").iterdir():
        if not jar.name.startswith(YARN_JAR):
            link(jars / jar.name, jar)
    return without


def link(link_path: Path, target: Path) -> None:
    if not os.path.lexists(link_path):
        link_path.symlink_to(target)
