# SPDX-License-Identifier: Apache-2.0
"""One sort, from files to files: an application of its own, and then the judge."""

import json
import shutil
import subprocess
import time
from pathlib import Path

from harness.driver import environment
from harness.paths import ROOT, SORT, python_of
from matrix.sides import BENCH, BY_NAME, Setting, settings

SPLIT_BYTES = 32 << 20
RECORD_BYTES = 100
MB = 1_000_000
MIN_PARTITIONS = 8
FILES = 16
APPLICATION_TIMEOUT_S = 3600
LOG_TAIL = 3000
# Keys are random, and cannot be compressed.
UNCOMPRESSED = {"spark.shuffle.compress": "false", "spark.shuffle.spill.compress": "false"}


class Sort:
    """An input, which can be sorted several times."""

    def __init__(self, setting: Setting, folder: Path, disks: int):
        self._setting = setting
        self._folder = folder
        self._disks = disks
        self._input = folder / "input"
        self._records = 0
        self._checksum = ""

    def generate(self, records: int) -> None:
        """Generates the records 0, 1, 2, … of gensort, in binary."""
        shutil.rmtree(self._input, ignore_errors=True)
        made = lodestone_sort("generate", records, self._input, "--files", FILES)
        self._records, self._checksum = records, made["Checksum"]

    def once(self, side: str) -> dict:
        """Sorts once. Returns seconds by phase. Raises if the output is not the input, in order."""
        output = self._folder / "output"
        shutil.rmtree(output, ignore_errors=True)
        began = time.monotonic()
        result = self._application(side, output)
        sorted_at = time.monotonic()
        # The bench's request for the report is no part of the sort.
        began += result["reportSeconds"]
        judged = lodestone_sort("validate", output)
        ended = time.monotonic()
        if (judged["Records"], judged["Checksum"]) != (str(self._records), self._checksum):
            wanted = f"{self._records} records with checksum {self._checksum}"
            raise SystemExit(f"{side}: {wanted} went in, out came {judged}")
        shutil.rmtree(output)
        return {
            "side": side,
            "records": self._records,
            "bytes": self._records * RECORD_BYTES,
            "cores": self._setting.executors * self._setting.cores,
            "disks": self._disks,
            "maps": result["maps"],
            "partitions": result["partitions"],
            "seconds": {
                **phases(result),
                "application": round(sorted_at - began, 2),
                "validate": round(ended - sorted_at, 2),
                "whole": round(ended - began, 2),
            },
            "stages": result["stages"],
            "report": result["report"],
        }

    def _application(self, side: str, output: Path) -> dict:
        work = self._folder / side
        shutil.rmtree(work, ignore_errors=True)
        (work / "ended").mkdir(parents=True)
        specification = {
            "conf": settings(BY_NAME[side], self._setting, work) | UNCOMPRESSED,
            "ended": str(work / "ended"),
            "source": str(self._input),
            "target": str(output),
            "splitBytes": SPLIT_BYTES,
            "partitions": max(MIN_PARTITIONS, self._records * RECORD_BYTES // SPLIT_BYTES),
        }
        env = environment(self._setting.spark)
        env["PYTHONPATH"] = f"{ROOT / 'e2e'}:{BENCH}"
        python, log = python_of(self._setting.spark), work / "log.txt"
        with log.open("wb") as errors:
            done = subprocess.run(
                [python, "-m", "sorting.application", json.dumps(specification)],
                cwd=work, env=env, stdout=subprocess.PIPE, stderr=errors, text=True,
                timeout=APPLICATION_TIMEOUT_S, check=False,
            )  # fmt: skip
        if done.returncode != 0:
            raise SystemExit(f"{side} failed:\n{log.read_text()[-LOG_TAIL:]}\n{log}")
        shutil.rmtree(work / "local", ignore_errors=True)
        return json.loads(done.stdout.splitlines()[-1])


def phases(result: dict) -> dict[str, float]:
    """Returns the phases of the job: before the first map task (the sample of keys), the map stage,
    no task at all, the reduce stage."""
    maps, reduces = result["stages"]
    marks = [
        result["beganMs"],
        maps["beganMs"],
        maps["endedMs"],
        reduces["beganMs"],
        reduces["endedMs"],
    ]
    names = ("sample", "map", "gap", "reduce")
    seconds = {
        name: round((after - before) / 1000, 2)
        for name, before, after in zip(names, marks, marks[1:], strict=False)
    }
    return {**seconds, "sort": round((marks[-1] - marks[0]) / 1000, 2)}


def lodestone_sort(*arguments) -> dict[str, str]:
    """Runs the tool, and returns its output line by line. Records that are not in order end the
    bench."""
    command = [SORT, *map(str, arguments)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return dict(line.split(": ", 1) for line in done.stdout.splitlines() if ": " in line)
