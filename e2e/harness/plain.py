# SPDX-License-Identifier: Apache-2.0
"""A plain Spark that stays up and answers jobs, for comparison with Lodestone's answers."""

import json
import subprocess
import threading
from pathlib import Path

from .driver import environment
from .paths import python_of
from .spark_process import JOB_TIMEOUT_S, Job, configuration

STOP_TIMEOUT_S = 30
# Settings that may change the plan, and so the answer. No other setting of a job does.
PLANNING = "spark.sql."
# Arguments by which a test reaches into a job.
HANDLES = ("gates", "kills", "mergers")


def question(job: Job) -> dict:
    """Returns the question for plain Spark: the job without the test's handles, and without
    settings that only concern a cluster."""
    arguments = {k: v for k, v in job.arguments.items() if k not in HANDLES}
    conf = {k: v for k, v in job.conf.items() if k.startswith(PLANNING)}
    return {"job": job.name, "arguments": arguments, "conf": conf}


class PlainSpark:
    """One application of a Spark release, in one process of its own."""

    def __init__(self, spark_version: str, folder: Path):
        self._log = folder / "log.txt"
        conf = configuration(spark_version, folder, lodestone=False)
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [python_of(spark_version), "-m", "harness.plain_worker", json.dumps(conf)],
                cwd=folder, env=environment(spark_version), text=True,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log,
            )  # fmt: skip

    def answer(self, asked: dict) -> object:
        """Returns the answer to a `question`."""
        watchdog = threading.Timer(JOB_TIMEOUT_S, self._process.kill)
        watchdog.start()
        print(json.dumps(asked), file=self._process.stdin, flush=True)
        line = self._process.stdout.readline()
        watchdog.cancel()
        assert line, f"plain Spark failed at {asked}:\n{self._log.read_text()[-8000:]}"
        return json.loads(line)

    def stop(self) -> None:
        self._process.stdin.close()
        self._process.wait(STOP_TIMEOUT_S)
