# SPDX-License-Identifier: Apache-2.0
"""Runs jobs on plain Spark, plans from its event logs, and runs them with Lodestone in the modes
auto, merge and remote.

Each application does its job several times, all sides in turn, and the first time warms it up. The
event log has all of them; what is compared is what is predicted for one of them.
"""

import argparse
import json
import statistics
import subprocess
import tempfile
import threading
from pathlib import Path

from harness.daemon import Daemon
from harness.paths import DAEMON
from harness.screen import say
from matrix import disk, keeping, result
from matrix.command_line import add_cluster, changed, command, listed, results_at, setting_of
from matrix.session import Failed, Session
from matrix.sides import CACHE, LODESTONE, MERGE, REMOTE, Setting, Side
from tpch import tables

from .jobs import BY_NAME, PlanJob
from .page import text

MODES = {"auto": LODESTONE, "merge": MERGE, "remote": REMOTE}
MEMORY = "3g"
JOB_TIMEOUT_S = 300
# A service counts all of its partitions for an answer.
LOOK_EVERY_S = 0.1


def main() -> int:
    asked = arguments()
    path = results_at(asked.out, "plan")
    made = begun(asked)
    keeping.warn(made)
    if asked.into and path.with_suffix(".json").exists():
        made["jobs"] = json.loads(path.with_suffix(".json").read_text())["jobs"]
    for name in asked.jobs:
        say(f"== {name}")
        made["jobs"][name] = measured(BY_NAME[name], asked.setting, asked.rounds)
        result.write(path.with_suffix(".json"), made)
    page = text(made)
    path.with_suffix(".txt").write_text(page)
    say("\n" + page)
    if set(made["jobs"]) == set(BY_NAME):
        keeping.Keeper(made).text("plan", page, [])
    return 0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="plan", description=__doc__)
    names = list(BY_NAME)
    parser.add_argument("--jobs", type=listed(names), default=names, help=f"some of {names}")
    parser.add_argument("--rounds", type=int, default=2, help="after the first, which warms up")
    add_cluster(parser)
    parser.add_argument("--out", type=Path, help="results are OUT.json and OUT.txt")
    parser.add_argument("--into", action="store_true", help="keep the other jobs that OUT.json has")
    asked = parser.parse_args()
    asked.changed = changed(asked, parser, ["spark", "executors", "cores", "memory"])
    return asked


def measured(job: PlanJob, setting: Setting, rounds: int) -> dict:
    """Runs one job on all sides, in turn."""
    throttle = disk.Throttle(CACHE)
    with tempfile.TemporaryDirectory(prefix="lodestone-plan-") as folder:
        logs = Path(folder)
        logged = {"spark.eventLog.enabled": "true", "spark.eventLog.dir": logs.as_uri()}
        sides = {
            "plain": Side("plan-plain", "plain Spark", logged),
            **{mode: Side(f"plan-{mode}", mode, conf, daemons=(MEMORY,))
               for mode, conf in MODES.items()},
        }  # fmt: skip
        sessions: dict[str, Session] = {}
        try:
            for name, side in sides.items():
                daemons = side.daemons
                sessions[name] = Session(side, setting, throttle, JOB_TIMEOUT_S, daemons)
            runs = {name: [] for name in sides}
            if job.is_throttled:
                throttle.on()
            for _ in range(rounds + 1):
                for name, session in sessions.items():
                    runs[name].append(one_run(session, job))
        finally:
            if job.is_throttled:
                throttle.off()
            for session in sessions.values():
                session.stop()
            throttle.close()
        (log,) = logs.iterdir()
        plan = planned(log, job)
    answers = {json.dumps(run["answer"]) for each in runs.values() for run in each}
    if len(answers) != 1:
        raise Failed(f"{job.name}: the sides have different answers")
    return {
        "commit": result.commit(),
        "plan": predicted(plan, rounds + 1),
        "measured": {name: figures(each[1:]) for name, each in runs.items()},
    }


def one_run(session: Session, job: PlanJob) -> dict:
    with Watch(session.daemons) as watch:
        done = session.run(job.workload, job.sizes, job.is_throttled)
    return {**done, "peakBytes": watch.most}


class Watch:
    """The most bytes that daemons hold while something runs."""

    def __init__(self, daemons: list[Daemon]):
        self._daemons = daemons
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self.most = 0

    def __enter__(self) -> "Watch":
        self._thread.start()
        return self

    def __exit__(self, *_) -> None:
        self._over.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._over.wait(LOOK_EVERY_S):
            held = sum(one["bytes"] for d in self._daemons for one in d.applications())
            self.most = max(self.most, held)


def planned(log: Path, job: PlanJob) -> dict:
    kind = "hdd" if job.is_throttled else "ssd"
    asked = [DAEMON, "plan", "--event-log", log, "--disk", kind, "--json"]
    return json.loads(subprocess.run(asked, check=True, capture_output=True, text=True).stdout)


def predicted(plan: dict, passes: int) -> dict:
    """Returns what is predicted for the last time that the application did the job."""
    shuffles = plan["shuffles"]
    count = len(shuffles) // passes
    last = shuffles[-count:]
    return {
        "tasksAtATime": plan["tasksAtATime"],
        "shuffles": count,
        "modes": {
            mode: {
                "shuffles": sum(taken(one, mode) for one in last),
                "blocks": sum(one[blocks_of(mode)] for one in last if taken(one, mode)),
                "chunks": sum(one[chunks_of(mode)] for one in last if taken(one, mode)),
                "pushed": summed(one["pushedBytes"] for one in last if taken(one, mode)),
                "saved": summed(one[f"{mode}TaskSecondsSaved"] for one in last),
            }
            for mode in MODES
        },
    }


def blocks_of(mode: str) -> str:
    """In mode remote the driver counts segments."""
    return "remoteSegments" if mode == "remote" else "blocks"


def chunks_of(mode: str) -> str:
    return "remoteChunks" if mode == "remote" else "chunks"


def taken(shuffle: dict, mode: str) -> bool:
    return mode == "remote" or shuffle[mode] in ("merge", "probably")


def summed(ranges) -> dict:
    total: dict[str, float] = {}
    for each in ranges:
        for key, value in each.items():
            total[key] = total.get(key, 0.0) + value
    return total


def figures(runs: list[dict]) -> dict:
    """Returns medians of the measured runs."""
    totals = [run["report"] for run in runs]

    def middle(values) -> float:
        return statistics.median(values)

    return {
        "seconds": [run["seconds"] for run in runs],
        "shuffles": middle(t.get("merged", 0) + t.get("remote", 0) for t in totals),
        "blocks": middle(t.get("blocksPushed", 0) for t in totals),
        "chunks": middle(t.get("chunksRead", 0) for t in totals),
        "pushed": middle(t.get("bytesPushed", 0) for t in totals),
        "peak": middle(run["peakBytes"] for run in runs),
    }


def begun(asked: argparse.Namespace) -> dict:
    """Returns a result without jobs."""
    # Small row groups: as many map tasks as large tables have.
    made = tables.small("0.5", "1MB")
    asked.setting = setting_of(asked, made)
    return {**result.begun(asked.setting, command("plan"), asked.rounds, asked.changed), "jobs": {}}


if __name__ == "__main__":
    raise SystemExit(main())
