# SPDX-License-Identifier: Apache-2.0
"""One PySpark process of the demo: it runs jobs on request, and returns the figures of each."""

import json
import re
import shutil
import subprocess
import threading
from dataclasses import dataclass, field
from pathlib import Path

from harness.driver import environment
from harness.meters import Meter
from harness.paths import ROOT, python_of
from harness.spark_process import MANAGER, ONE_EXECUTOR, configuration

from .created_files import CreatedFiles
from .jobs import SIZES

ANSWER_TIMEOUT_S = 240
STOP_TIMEOUT_S = 60
LOG_TAIL_BYTES = 6000
FOLDER = ROOT / ".cache" / "demo"
# The driver's last line about all shuffles.
LAST_LINE = re.compile(r"lodestone: [\d,]+ of [\d,]+ shuffles merged.*")


@dataclass(frozen=True)
class Setting:
    """The settings that both sides of a comparison share."""

    spark: str
    tables: Path
    sizes: dict = field(default_factory=lambda: SIZES)
    master: str = ONE_EXECUTOR
    folder: Path = FOLDER


@dataclass
class Done:
    """One job: the exact answer, its figures, and the counts and decisions of Lodestone.

    On plain Spark there are no counts and no shuffles.
    """

    answer: list
    figures: dict
    counts: dict
    shuffles: list[dict]


class Session:
    """A Spark application that stays up between its jobs. It starts at once, in the background."""

    def __init__(self, setting: Setting, lodestone: bool):
        self.name = "Lodestone" if lodestone else "plain Spark"
        self._spark = setting.spark
        folder = setting.folder / f"{setting.spark}-{'lodestone' if lodestone else 'plain'}"
        shutil.rmtree(folder, ignore_errors=True)
        self._local, ended = folder / "local", folder / "ended"
        for one in (self._local, ended):
            one.mkdir(parents=True)
        specification = {
            "master": setting.master,
            "conf": settings(setting.spark, lodestone, folder),
            "tables": str(setting.tables),
            "sizes": setting.sizes,
            "ended": str(ended),
        }
        self._log = folder / "log.txt"
        self._report: dict = {}
        self._files = CreatedFiles(self._local)
        with self._log.open("wb") as errors:
            self._process = subprocess.Popen(
                [python_of(setting.spark), "-m", "demo.worker", json.dumps(specification)],
                cwd=folder, env=environment(setting.spark), text=True,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors,
            )  # fmt: skip

    def await_ready(self) -> None:
        """Waits until executors are up and have worked once."""
        self._report = self._next_event()["report"]

    def run(self, job: str) -> Done:
        """Runs one job. Raises with the end of the log when Spark fails."""
        meter, files = Meter(self._process.pid, self._local, []), self._files.count()
        self._process.stdin.write(f"{job}\n")
        self._process.stdin.flush()
        answered = self._next_event()
        used, files = meter.read(), self._files.count() - files
        counted = self._next_event()
        before, self._report = self._report, counted["report"]
        counts = difference(self._report.get("totals", {}), before.get("totals", {}))
        figures = {
            "seconds": round(answered["seconds"], 2),
            "cpuSeconds": round(sum(kind["cpu"] for kind in used.values()), 2),
            "filesCreated": files,
            "reads": reads(counted["stages"], counts),
        }
        return Done(answered["answer"], figures, counts, new_shuffles(self._report, before))

    @property
    def has_counted_all_files(self) -> bool:
        return self._files.is_exact

    @property
    def sentences(self) -> dict[str, str]:
        """The reasons of Lodestone's report so far, by code."""
        return self._report.get("sentences", {})

    def last_line(self) -> str:
        """The driver's last line about Lodestone, once the application has ended."""
        found = LAST_LINE.findall(self._log.read_text(errors="replace"))
        return found[-1] if found else ""

    def begin_stop(self) -> None:
        """Begins to stop the application; the end of the context waits for it."""
        self._process.stdin.close()

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, failure, *_) -> None:
        """Waits until the application has stopped, or kills it if the demo failed."""
        try:
            if failure is None:
                self._await_stop()
            else:
                self._process.kill()
                self._process.wait()
        finally:
            self._files.close()

    def _await_stop(self) -> None:
        watchdog = threading.Timer(STOP_TIMEOUT_S, self._process.kill)
        watchdog.start()
        code = self._process.wait()
        watchdog.cancel()
        if code != 0:
            self._give_up(f"did not stop well ({code})")

    def _next_event(self) -> dict:
        watchdog = threading.Timer(ANSWER_TIMEOUT_S, self._process.kill)
        watchdog.start()
        line = self._process.stdout.readline()
        watchdog.cancel()
        if not line:
            self._give_up(f"failed ({self._process.wait()})")
        return json.loads(line)

    def _give_up(self, problem: str):
        tail = self._log.read_bytes()[-LOG_TAIL_BYTES:].decode(errors="replace")
        raise SystemExit(f"{self.name} on Spark {self._spark} {problem}:\n{tail}\n{self._log}")


def settings(version: str, lodestone: bool, folder: Path) -> dict[str, str]:
    """Returns the settings: the same for both sides, except for the one key that switches Lodestone
    on."""
    switch = {"spark.shuffle.manager": MANAGER} if lodestone else {}
    # Many maps and many partitions: small blocks, as a large cluster has them.
    return configuration(version, folder, lodestone=False) | switch | {
        "spark.sql.files.maxPartitionBytes": "32m",
        "spark.sql.shuffle.partitions": "64",
        "spark.sql.adaptive.enabled": "true",
        "spark.sql.adaptive.coalescePartitions.parallelismFirst": "false",
        "spark.sql.adaptive.advisoryPartitionSizeInBytes": "16m",
    }  # fmt: skip


def reads(stages: list[dict], counts: dict) -> int:
    """Returns how many byte ranges reduce tasks asked for. Spark counts the blocks, also those
    inside chunks."""
    blocks = sum(stage["readBlocks"] for stage in stages)
    return blocks - counts.get("mergedBlocksRead", 0) + counts.get("chunksRead", 0)


def new_shuffles(now: dict, before: dict) -> list[dict]:
    """Returns the shuffles of a report that an earlier one did not have."""
    known = {shuffle["shuffleId"] for shuffle in before.get("shuffles", [])}
    return [one for one in now.get("shuffles", []) if one["shuffleId"] not in known]


def difference(now: dict, before: dict) -> dict:
    """Returns the counts since the earlier totals; reasons by code."""
    then = before.get("reasons", {})
    counted = {k: v - before.get(k, 0) for k, v in now.items() if k != "reasons"}
    reasons = {code: n - then.get(code, 0) for code, n in now.get("reasons", {}).items()}
    return {**counted, "reasons": {code: n for code, n in reasons.items() if n}} if now else {}
