# SPDX-License-Identifier: Apache-2.0
"""Runs a job on Lodestone in an application of its own, and returns its answer and its report."""

import json
import tempfile
import threading
from dataclasses import dataclass, field
from pathlib import Path

from . import driver, jvm
from .daemon import wait_until
from .hosts import LOOPBACK, Host

JOB_TIMEOUT_S = 600
MANAGER = "org.apache.spark.shuffle.lodestone.LodestoneShuffleManager"
# Each has two cores, and a task may fail three times. The first runs tasks in the driver's JVM: no
# executor starts, and the JVM is warm. Tests of executors, and of messages between them and the
# driver, use the others.
IN_THE_DRIVER = "local[2,4]"
ONE_EXECUTOR = "local-cluster[1,2,1024]"
TWO_EXECUTORS = "local-cluster[2,1,1024]"
# For two executors: no task starts before both are there, so that each runs some tasks of every
# stage.
BOTH_EXECUTORS = {
    "spark.cores.max": "2",
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    "spark.scheduler.maxRegisteredResourcesWaitingTime": "60s",
}


@dataclass
class Outcome:
    """The outcome of a job: its answer, Lodestone's report, its log, and number and tasks of each
    stage's last attempt."""

    answer: object
    report: dict
    log: str
    stages: list[tuple[int, int]]

    def reasons(self) -> dict[str, int]:
        """Returns counts by reason code over all shuffles."""
        return self.report.get("totals", {}).get("reasons", {})


@dataclass
class Job:
    """A function of `harness.jobs` with its arguments, and the configuration around it. If it
    `is_stock`, it runs on Spark without the plugin and its jar. A value None in `conf` leaves a key
    out that jobs have otherwise."""

    name: str
    arguments: dict = field(default_factory=dict)
    master: str = IN_THE_DRIVER
    conf: dict[str, str | None] = field(default_factory=dict)
    driver: Host = LOOPBACK
    is_stock: bool = False


class SparkProcess:
    """A job in progress. `wait` returns the outcome, or raises with the end of the log if the job
    failed."""

    def __init__(self, spark_version: str, job: Job):
        self._folder = Path(tempfile.mkdtemp(prefix="lodestone-e2e-"))
        is_ours = not job.is_stock
        ours = configuration(spark_version, self._folder, is_ours, job.driver, has_plugin=is_ours)
        conf = {key: value for key, value in (ours | job.conf).items() if value is not None}
        self._driver = driver.taken(spark_version, job.driver, conf)
        self.process = self._driver.process
        self._log_begin = self._driver.logged()
        self._is_over = False
        self._driver.begin(
            {
                "job": job.name,
                "arguments": job.arguments,
                "master": job.master,
                "conf": conf,
                "result": str(self._folder / "result.json"),
            }
        )

    @property
    def local_dirs(self) -> Path:
        return self._folder / "local"

    def log(self) -> str:
        return self._driver.log(self._log_begin)

    def runs(self) -> bool:
        """Returns whether neither the job nor its process has ended."""
        return not self._is_over and not self._driver.has_said()

    def kill(self) -> None:
        """Kills a job whose outcome is not needed; after `wait` it does nothing."""
        if not self._is_over:
            self._is_over = True
            self._driver.kill()

    def wait_until(self, condition, what: str):
        """Polls for an effect of the job, as long as it runs. A machine that is slow to start a job
        is no error."""

        def has_come() -> bool:
            if condition():
                return True
            assert self.runs(), f"not before the job's end: {what}\n{self.log()[-8000:]}"
            return False

        wait_until(has_come, what, JOB_TIMEOUT_S)

    def wait(self, timeout_s: float = JOB_TIMEOUT_S) -> Outcome:
        watchdog = threading.Timer(timeout_s, self.process.kill)
        watchdog.start()
        succeeded = self._driver.said()
        watchdog.cancel()
        self._is_over = True
        if not succeeded:
            code = self.process.wait()
            raise AssertionError(f"the job failed with exit code {code}:\n{self.log()[-8000:]}")
        result = json.loads((self._folder / "result.json").read_text())
        stages = [(attempt, tasks) for attempt, tasks in result["stages"]]
        outcome = Outcome(result["answer"], result["report"], self.log(), stages)
        driver.give_back(self._driver)
        return outcome


def configuration(
    spark_version: str,
    folder: Path,
    lodestone: bool,
    host: Host = LOOPBACK,
    has_plugin: bool = True,
) -> dict[str, str]:
    """Returns the same for both sides, except for the key that switches Lodestone on. Mode `merge`,
    because mode auto does not merge shuffles as small as here."""
    options, classpath = jvm.options(spark_version), jvm.classpath(spark_version, has_plugin)
    conf = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": host.address,
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": options,
        "spark.executor.extraJavaOptions": options,
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.shuffle.partitions": "32",
        "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
        "spark.local.dir": str(folder / "local"),
        "spark.driver.extraClassPath": classpath,
        "spark.executor.extraClassPath": classpath,
    }
    if lodestone:
        conf |= {"spark.shuffle.manager": MANAGER, "spark.lodestone.mode": "merge"}
    return conf
