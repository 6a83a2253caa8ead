# SPDX-License-Identifier: Apache-2.0
"""A job that `spark-submit` runs in cluster mode: its driver is a pod."""

import json
import subprocess
import tempfile
from pathlib import Path

from ..driver import environment
from ..paths import ROOT, python_of, spark_home
from ..spark_process import JOB_TIMEOUT_S, Job, Outcome, configuration
from .cluster import Kubernetes

DRIVER = "driver-of-the-test"
LOG_CHARACTERS = 8000


class SubmittedJob:
    """A job in progress. `wait` returns the outcome, or raises with the end of the logs."""

    def __init__(self, spark_version: str, kubernetes: Kubernetes, job: Job):
        self._kubernetes = kubernetes
        self._folder = Path(tempfile.mkdtemp(prefix="lodestone-e2e-kubernetes-"))
        self._result, self._log = self._folder / "result.json", self._folder / "log.txt"
        specification = self._folder / "job.json"
        asked = {"job": job.name, "arguments": job.arguments, "result": str(self._result)}
        specification.write_text(json.dumps(asked))
        conf = configuration(spark_version, self._folder, lodestone=True) | job.conf
        conf |= self._in_a_pod(spark_version)
        options = [f"{key}={value}" for key, value in conf.items() if value is not None]
        confs = [word for option in options for word in ("--conf", option)]
        program = ROOT / "e2e" / "yarn" / "submitted.py"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [*kubernetes.driver.enter, spark_home(spark_version) / "bin" / "spark-submit",
                 "--master", job.master, "--deploy-mode", "cluster", *confs,
                 f"local://{program}", specification],
                cwd=self._folder, env=environment(spark_version, kubernetes.driver),
                stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
            )  # fmt: skip

    def _in_a_pod(self, spark_version: str) -> dict[str, str | None]:
        """Returns what a driver in a pod has beside the settings of one that is none."""
        python, folder = str(python_of(spark_version)), str(self._folder)
        result = "spark.kubernetes.driver.volumes.hostPath.result"
        return {
            # It has an address and a name of its own.
            "spark.driver.host": None,
            "spark.kubernetes.driver.pod.name": DRIVER,
            "spark.kubernetes.driver.master": self._kubernetes.api.master.removeprefix("k8s://"),
            "spark.kubernetes.driverEnv.PYTHONPATH": str(ROOT / "e2e"),
            "spark.pyspark.python": python,
            f"{result}.mount.path": folder,
            f"{result}.options.path": folder,
            **self._kubernetes.conf_of_submissions,
        }

    def wait(self) -> Outcome:
        code = self._process.wait(JOB_TIMEOUT_S)
        driver = self._kubernetes.kubelet.pod(DRIVER).log.read_text(errors="replace")
        if code != 0 or not self._result.exists():
            logs = f"{self._log.read_text()[-LOG_CHARACTERS:]}\n{driver[-LOG_CHARACTERS:]}"
            raise AssertionError(f"the job failed, spark-submit with code {code}:\n{logs}")
        result = json.loads(self._result.read_text())
        stages = [(attempt, tasks) for attempt, tasks in result["stages"]]
        return Outcome(result["answer"], result["report"], driver, stages)

    def kill(self) -> None:
        """Ends `spark-submit`. Whoever clears the cluster ends the pods."""
        self._process.kill()
        self._process.wait()
