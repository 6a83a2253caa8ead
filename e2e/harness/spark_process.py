# SPDX-License-Identifier: Apache-2.0
"""Runs a job in a PySpark process of its own and brings its answer back."""

import json
import os
import subprocess
import tempfile
import threading
from dataclasses import dataclass, field
from pathlib import Path

from .paths import JOBS_JAR, ROOT, plugin_jar, python_of

JOB_TIMEOUT_S = 300
# A Spark that lives for a minute or two: the optimising compiler would take more time than it saves, and so would
# the verifier; test_linkage has it look at every class of ours.
JVM_OPTIONS = (
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:+UseTransparentHugePages"
    " -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
)
MANAGER = "org.apache.spark.shuffle.lodestone.LodestoneShuffleManager"
# For a local cluster of two executors: no task starts before both are there, so that each runs some tasks of every stage.
BOTH_EXECUTORS = {
    "spark.cores.max": "2",
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    "spark.scheduler.maxRegisteredResourcesWaitingTime": "60s",
}


@dataclass
class Outcome:
    """What a job said: its answer, Lodestone's report (None on plain Spark), its log, and number and tasks of each stage's last attempt."""

    answer: object
    report: dict | None
    log: str
    stages: list[tuple[int, int]]

    def reasons(self) -> dict[str, int]:
        """Counts by reason code over all shuffles."""
        return (self.report or {}).get("totals", {}).get("reasons", {})


@dataclass
class Job:
    """A function of `harness.jobs` with its arguments, and the configuration around it."""

    name: str
    arguments: dict = field(default_factory=dict)
    master: str = "local-cluster[2,1,1024]"
    conf: dict[str, str] = field(default_factory=dict)


class SparkProcess:
    """A job under way. `wait` gives the outcome; a failed job raises with the end of its log."""

    def __init__(self, spark_version: str, job: Job, lodestone: bool):
        self._folder = Path(tempfile.mkdtemp(prefix="lodestone-e2e-"))
        self._log = self._folder / "log.txt"
        specification = {
            "job": job.name,
            "arguments": job.arguments,
            "master": job.master,
            "conf": configuration(spark_version, job, lodestone, self._folder),
            "result": str(self._folder / "result.json"),
        }
        environment = dict(os.environ, PYTHONPATH=str(ROOT / "e2e"), SPARK_LOCAL_IP="127.0.0.1")
        environment.pop("SPARK_HOME", None)
        python = str(python_of(spark_version))
        environment["PYSPARK_PYTHON"] = python
        with open(self._log, "wb") as log:
            self.process = subprocess.Popen(
                [python, "-m", "harness.worker", json.dumps(specification)],
                cwd=self._folder, env=environment, stdout=log, stderr=subprocess.STDOUT,
            )  # fmt: skip

    @property
    def local_dirs(self) -> Path:
        return self._folder / "local"

    def log(self) -> str:
        return self._log.read_text(errors="replace")

    def wait(self) -> Outcome:
        watchdog = threading.Timer(JOB_TIMEOUT_S, self.process.kill)
        watchdog.start()
        code = self.process.wait()
        watchdog.cancel()
        result = self._folder / "result.json"
        if code != 0 or not result.exists():
            raise AssertionError(f"the job failed with exit code {code}:\n{self.log()[-8000:]}")
        told = json.loads(result.read_text())
        stages = [(attempt, tasks) for attempt, tasks in told["stages"]]
        return Outcome(told["answer"], told["report"], self.log(), stages)


def configuration(spark_version: str, job: Job, lodestone: bool, folder: Path) -> dict[str, str]:
    """Both sides get the same, but for the one key and the jar."""
    classpath = [str(JOBS_JAR)] + ([str(plugin_jar(spark_version))] if lodestone else [])
    conf = {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": JVM_OPTIONS,
        "spark.executor.extraJavaOptions": JVM_OPTIONS,
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.shuffle.partitions": "32",
        "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
        "spark.local.dir": str(folder / "local"),
        "spark.driver.extraClassPath": ":".join(classpath),
        "spark.executor.extraClassPath": ":".join(classpath),
    }
    if lodestone:
        conf["spark.shuffle.manager"] = MANAGER
    ours = {k: v for k, v in job.conf.items() if lodestone or not k.startswith("spark.lodestone.")}
    return {**conf, **ours}


def run(spark_version: str, job: Job, lodestone: bool) -> Outcome:
    """Starts a job and waits for it."""
    return SparkProcess(spark_version, job, lodestone).wait()
