# SPDX-License-Identifier: Apache-2.0
"""One PySpark process of the demo, watched from outside: what each job took, answered and reported."""

import json
import os
import shutil
import subprocess
import threading
from dataclasses import dataclass
from pathlib import Path

from harness.paths import JOBS_JAR, ROOT, plugin_jar, python_of
from harness.spark_process import MANAGER

JOBS = ["q03", "q05", "q09", "q18", "q21", "sort"]
SESSION_TIMEOUT_S = 480
LOG_TAIL_BYTES = 6000
FOLDER = ROOT / ".cache" / "demo"
# Each Spark lives for a minute: the optimising compiler would take more time than it saves.
JVM_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


@dataclass
class Done:
    """One job: seconds, the exact answer, and what Lodestone counted for it (nothing on plain Spark)."""

    seconds: float
    answer: list
    counts: dict


class Session:
    """All jobs, one after the other, in a fresh Spark."""

    def __init__(self, version: str, lodestone: bool, tables: Path):
        self.version = version
        self.name = "Lodestone" if lodestone else "plain Spark"
        self._folder = FOLDER / f"{version}-{'lodestone' if lodestone else 'plain'}"
        self._specification = {
            "master": "local-cluster[2,1,1024]",
            "conf": configuration(version, lodestone, self._folder / "local"),
            "tables": str(tables),
            "jobs": JOBS,
        }

    def run(self, progress) -> dict[str, Done]:
        """What each job did, by name. Raises with the end of the log when Spark fails."""
        self._folder.mkdir(parents=True, exist_ok=True)
        log = self._folder / "log.txt"
        progress(f"   {self.name:<11}  starting", end="")
        with log.open("wb") as errors:
            process = subprocess.Popen(
                [python_of(self.version), "-m", "demo.worker", json.dumps(self._specification)],
                cwd=self._folder, env=environment(self.version), text=True,
                stdout=subprocess.PIPE, stderr=errors,
            )  # fmt: skip
        watchdog = threading.Timer(SESSION_TIMEOUT_S, process.kill)
        watchdog.start()
        try:
            done = dict(self._follow(process.stdout, progress))
        finally:
            code = process.wait()
            watchdog.cancel()
        progress("")
        if code != 0 or len(done) != len(JOBS):
            tail = log.read_bytes()[-LOG_TAIL_BYTES:].decode(errors="replace")
            raise SystemExit(f"{self.name} on Spark {self.version} failed ({code}):\n{tail}\n{log}")
        return done

    def _follow(self, lines, progress):
        before: dict = {}
        for event in map(json.loads, lines):
            if event["event"] == "started":
                progress(f"  {event['job'].upper()}", end="")
                continue
            counts = difference(event["report"], before)
            before = event["report"]
            if event["event"] == "done":
                progress(f" {event['seconds']:.1f}s", end="")
                yield event["job"], Done(event["seconds"], event["answer"], counts)


def configuration(version: str, lodestone: bool, local: Path) -> dict[str, str]:
    """Both sides get the same. Lodestone's side gets its jar, and the one key."""
    shutil.rmtree(local, ignore_errors=True)
    classpath = [str(JOBS_JAR)] + ([str(plugin_jar(version))] if lodestone else [])
    conf = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": JVM_OPTIONS,
        "spark.executor.extraJavaOptions": JVM_OPTIONS,
        "spark.local.dir": str(local),
        "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
        # Many maps and many partitions: small blocks, as a large cluster has them.
        "spark.sql.files.maxPartitionBytes": "16m",
        "spark.sql.shuffle.partitions": "200",
        "spark.driver.extraClassPath": ":".join(classpath),
        "spark.executor.extraClassPath": ":".join(classpath),
    }
    if lodestone:
        conf["spark.shuffle.manager"] = MANAGER
    return conf


def environment(version: str) -> dict[str, str]:
    """This process's environment, without what would lead to another Spark."""
    kept = {k: v for k, v in os.environ.items() if k not in ("SPARK_HOME", "SPARK_CONF_DIR")}
    ours = {"PYTHONPATH": str(ROOT / "e2e"), "SPARK_LOCAL_IP": "127.0.0.1"}
    return {**kept, **ours, "PYSPARK_PYTHON": str(python_of(version))}


def difference(now: dict, before: dict) -> dict:
    """What was counted since; reasons by code."""
    then = before.get("reasons", {})
    counted = {k: v - before.get(k, 0) for k, v in now.items() if k != "reasons"}
    reasons = {code: n - then.get(code, 0) for code, n in now.get("reasons", {}).items()}
    return {**counted, "reasons": {code: n for code, n in reasons.items() if n}} if now else {}
