# SPDX-License-Identifier: Apache-2.0
"""`make bench`: the same jobs on plain Spark, on Spark's own shuffle services, and on Lodestone, in
turn, round after round."""

import argparse
import os
import sys
import time
from pathlib import Path

from harness import comet
from harness.screen import progress, say
from tpch import tables

from . import disk, figures, keeping, network, result, sides, summary, table, workloads
from .answers import Answers
from .command_line import (
    CLUSTER,
    add_cluster,
    alone,
    changed,
    command,
    draw,
    listed,
    results_at,
    setting_of,
)
from .sessions import TROUBLES, Sessions, order

DISKS = ["plain", "throttled", network.NAME]


def main() -> int:
    asked = arguments()
    with alone():
        return measured(asked)


def measured(asked: argparse.Namespace) -> int:
    throttle = disk.Throttle(sides.CACHE)
    disks = usable(asked.disks, throttle)
    made = tables.make(asked.scale_factor)
    setting = setting_of(asked, made, asked.reads == "network", asked.before, asked.codec)
    jobs = [workloads.BY_NAME[name] for name in asked.jobs]
    matrix_result = result.begun(setting, command("matrix"), asked.rounds, asked.changed)
    keeping.warn(matrix_result)
    matrix = Matrix(matrix_result, results_at(asked.out, "matrix"), asked.set)
    try:
        for name in disks:
            # Each disk has its own applications: an executor measures the speed of its disk only
            # once. So has the network.
            warm_up = None if asked.cold else {job.name: job.warm_up_sizes(name) for job in jobs}
            with Sessions(setting, throttle, warm_up, asked.timeout, name) as sessions:
                matrix.rounds(sessions, name, jobs, asked)
    finally:
        matrix.end()
        throttle.close()
    return 1 if any(run["failure"] for run in matrix_result["runs"]) else 0


class Matrix:
    """Makes runs, and writes down the results after each one."""

    def __init__(self, matrix_result: dict, path: Path, changed: list):
        self._result = matrix_result
        self._path = path
        self._changed = changed
        self._answers = Answers()

    def rounds(self, sessions: Sessions, disk_name: str, jobs: list, asked) -> None:
        """Makes all runs on one disk."""
        for side in [] if asked.cold else asked.sides:
            self._warm(sessions, disk_name, side)
        for number in range(1, asked.rounds + 1):
            turn = order(asked.sides, number)
            for job in jobs:
                self._round(sessions, number, disk_name, job, turn)

    def _warm(self, sessions: Sessions, disk_name: str, side: str) -> None:
        progress(f"   {summary.place(disk_name)}, {side}: starts")
        began = time.monotonic()
        try:
            sessions.warm(side)
            say(f", {time.monotonic() - began:.0f} s")
        except TROUBLES as failed:
            say(f": FAILED, {failed}")

    def _round(self, sessions: Sessions, number: int, disk_name: str, job, turn: list[str]) -> None:
        """Runs one job on one disk, once on each side."""
        sizes = {**job.sizes(disk_name), **self._changes(job.name)}
        self._result["sizes"][f"{disk_name} {job.name}"] = sizes
        progress(f"   round {number}, {summary.place(disk_name)}, {job.name}:")
        for side in turn:
            run = {"round": number, "disk": disk_name, "job": job.name, "side": side}
            self._result["runs"].append(run | self._run(sessions, side, job.name, sizes))
            latest = self._result["runs"][-1]
            took = latest["figures"].get("seconds")
            progress(f"  {side} FAILED" if took is None else f"  {side} {took:.1f} s")
            result.write(self._path.with_suffix(".json"), self._result)
        say("")

    def _changes(self, job: str) -> dict:
        return {name: value for of, name, value in self._changed if of == job}

    def _run(self, sessions: Sessions, side: str, job: str, sizes: dict) -> dict:
        """Runs a job once. A failure is a result too."""
        # Earlier writes must not be pending during the run.
        os.sync()
        try:
            run_result = sessions.run(side, job, sizes)
        except TROUBLES as failed:
            return {"failure": str(failed), "figures": {}}
        return {
            "failure": self._answers.difference(side, job, sizes, run_result["answer"]),
            "figures": figures.of_run(run_result),
            "details": run_result["details"],
            "report": run_result["report"],
            "clean": run_result["clean"],
        }

    def end(self) -> None:
        if not self._result["runs"]:
            return
        page = table.page(self._result)
        self._path.with_suffix(".txt").write_text(page)
        say("\n" + page)
        say(f"Every run: {self._path.with_suffix('.json')}")
        draw("matrix", self._path)
        keeping.keep_matrix(self._result, table.page)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="matrix", description=__doc__)
    names = [side.name for side in sides.ALL]
    parser.add_argument("--sides", type=listed(names), default=sides.USUAL, help=f"some of {names}")
    jobs = [job.name for job in workloads.ALL]
    parser.add_argument(
        "--jobs", type=listed(jobs), default=workloads.USUAL, help=f"some of {jobs}"
    )
    parser.add_argument("--disks", type=listed(DISKS), default=DISKS, help=f"some of {DISKS}")
    parser.add_argument("--rounds", type=int, default=5)
    add_cluster(parser)
    reads_help = "network: no executor opens another one's files, as if each had its own host"
    parser.add_argument("--reads", choices=["local", "network"], default="local", help=reads_help)
    codec_help = "how all sides compress blocks"
    parser.add_argument("--codec", choices=sides.CODECS, default=sides.CODECS[0], help=codec_help)
    parser.add_argument(
        "--scale-factor", type=int, default=1, help="scale factor of the TPC-H tables"
    )
    set_help = "a size: sort.maps=8, tpch.queries=q05+q09; on every disk; may be repeated"
    parser.add_argument("--set", type=change, action="append", default=[], help=set_help)
    cold_help = "a new application for each run, without warm-up; its start is not measured"
    parser.add_argument("--cold", action="store_true", help=cold_help)
    parser.add_argument("--timeout", type=float, default=900, help="seconds for one run")
    before_help = "a built checkout of another commit, for the sides `before`, `...-before`"
    parser.add_argument("--before", type=checkout, help=before_help)
    parser.add_argument("--out", type=Path, help="results are OUT.json, OUT.txt and OUT.svg")
    asked = parser.parse_args()
    if any(sides.BY_NAME[name].is_before for name in asked.sides) and not asked.before:
        parser.error("the side `before` and those named `...-before` need --before CHECKOUT")
    has_comet = any(sides.BY_NAME[name].has_comet for name in asked.sides)
    if has_comet and asked.spark not in comet.RELEASES:
        parser.error(f"Comet runs with `--spark` {' or '.join(comet.RELEASES)}")
    asked.changed = changed(asked, parser, [*CLUSTER, "reads", "codec", "scale_factor", "cold"])
    return asked


def checkout(text: str) -> Path:
    """Returns a folder in which `make build` has run."""
    folder = Path(text).resolve()
    if not list((folder / "dist" / "jars").glob("lodestone-spark-*.jar")):
        raise argparse.ArgumentTypeError(f"there is no plugin in {folder}/dist: run `make build`")
    return folder


def change(text: str) -> tuple[str, str, object]:
    """Parses `job.size=value`."""
    try:
        position, value = text.split("=", 1)
        job, name = position.split(".", 1)
        known = workloads.BY_NAME[job].plain[name]
        return job, name, type(known)(value)
    except (ValueError, KeyError):
        raise argparse.ArgumentTypeError(f"{text} is not of the form job.size=value") from None


def usable(wanted: list[str], throttle: disk.Throttle) -> list[str]:
    obstacles = {"throttled": throttle.obstacle, network.NAME: network.obstacle()}
    for name in wanted:
        if obstacles.get(name):
            say(f"== {summary.place(name)} is left out: {obstacles[name]}")
    return [name for name in wanted if not obstacles.get(name)]


if __name__ == "__main__":
    sys.exit(main())
