# SPDX-License-Identifier: Apache-2.0
"""One PySpark process of the demo, told from outside what to run: what each job took, answered and reported."""

import json
import shutil
import subprocess
import threading
from dataclasses import dataclass
from pathlib import Path

from harness.driver import environment
from harness.paths import ROOT, python_of
from harness.spark_process import ONE_EXECUTOR, configuration

JOBS = ["q03", "q05", "q09", "q18", "q21", "sort"]
ANSWER_TIMEOUT_S = 240
STOP_TIMEOUT_S = 60
LOG_TAIL_BYTES = 6000
FOLDER = ROOT / ".cache" / "demo"


@dataclass
class Done:
    """One job: seconds, the exact answer, and what Lodestone counted for it (nothing on plain Spark)."""

    seconds: float
    answer: list
    counts: dict


class Session:
    """A Spark application that stays up between its jobs. Starts at once, and in the background."""

    def __init__(self, version: str, lodestone: bool, tables: Path):
        self.version = version
        self.name = "Lodestone" if lodestone else "plain Spark"
        folder = FOLDER / f"{version}-{'lodestone' if lodestone else 'plain'}"
        folder.mkdir(parents=True, exist_ok=True)
        specification = {
            "master": ONE_EXECUTOR,
            "conf": settings(version, lodestone, folder),
            "tables": str(tables),
        }
        self._log = folder / "log.txt"
        self._report: dict = {}
        with self._log.open("wb") as errors:
            self._process = subprocess.Popen(
                [python_of(version), "-m", "demo.worker", json.dumps(specification)],
                cwd=folder, env=environment(version), text=True,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors,
            )  # fmt: skip

    def await_ready(self) -> None:
        """Executors are up and have worked once."""
        self._report = self._told()["report"]

    def run(self, job: str) -> Done:
        """Runs one job. Raises with the end of the log when Spark fails."""
        self._process.stdin.write(f"{job}\n")
        self._process.stdin.flush()
        told = self._told()
        counts = difference(told["report"], self._report)
        self._report = told["report"]
        return Done(told["seconds"], told["answer"], counts)

    def begin_stop(self) -> None:
        """It puts everything away; the end of the context waits for that."""
        self._process.stdin.close()

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, failure, *_) -> None:
        """It has put everything away; or is killed, because the demo failed."""
        if failure is None:
            self._await_stop()
        else:
            self._process.kill()
            self._process.wait()

    def _await_stop(self) -> None:
        watchdog = threading.Timer(STOP_TIMEOUT_S, self._process.kill)
        watchdog.start()
        code = self._process.wait()
        watchdog.cancel()
        if code != 0:
            self._give_up(f"did not stop well ({code})")

    def _told(self) -> dict:
        watchdog = threading.Timer(ANSWER_TIMEOUT_S, self._process.kill)
        watchdog.start()
        line = self._process.stdout.readline()
        watchdog.cancel()
        if not line:
            self._give_up(f"failed ({self._process.wait()})")
        return json.loads(line)

    def _give_up(self, what: str):
        tail = self._log.read_bytes()[-LOG_TAIL_BYTES:].decode(errors="replace")
        raise SystemExit(f"{self.name} on Spark {self.version} {what}:\n{tail}\n{self._log}")


def settings(version: str, lodestone: bool, folder: Path) -> dict[str, str]:
    """Both sides get the same, but for what turns Lodestone on."""
    shutil.rmtree(folder / "local", ignore_errors=True)
    # Many maps and many partitions: small blocks, as a large cluster has them.
    return configuration(version, folder, lodestone) | {
        "spark.sql.files.maxPartitionBytes": "32m",
        "spark.sql.shuffle.partitions": "64",
        "spark.sql.adaptive.enabled": "true",
        "spark.sql.adaptive.coalescePartitions.parallelismFirst": "false",
        "spark.sql.adaptive.advisoryPartitionSizeInBytes": "16m",
    }


def difference(now: dict, before: dict) -> dict:
    """What was counted since; reasons by code."""
    then = before.get("reasons", {})
    counted = {k: v - before.get(k, 0) for k, v in now.items() if k != "reasons"}
    reasons = {code: n - then.get(code, 0) for code, n in now.get("reasons", {}).items()}
    return {**counted, "reasons": {code: n for code, n in reasons.items() if n}} if now else {}
