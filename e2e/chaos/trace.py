# SPDX-License-Identifier: Apache-2.0
"""`python -m chaos.trace`: one fault at a time, and the outcomes of the job's tasks second by
second."""

import argparse
import json
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from harness.daemon import Daemon, services_of
from harness.plain import PlainSpark, question
from harness.spark_process import TWO_EXECUTORS, Job, SparkProcess

SIZES = {"maps": 40, "partitions": 16, "rows": 160000, "value_bytes": 600, "passes": 3}
Say = Callable[[str], None]


def restart_all(daemons: list[Daemon], say: Say) -> None:
    for number, daemon in enumerate(daemons):
        say(f"service {number} is stopped (SIGTERM)")
        daemon.stop()
        daemon.start()
        say(f"service {number} serves again, as {daemon.ready['incarnation']}")


def kill_one(daemons: list[Daemon], say: Say) -> None:
    say("service 0 is killed (SIGKILL)")
    daemons[0].kill()


def drain_one(daemons: list[Daemon], say: Say) -> None:
    say("service 0 is drained")
    drain = daemons[0].drain()
    for line in drain.stdout:
        say(f"  drain: {line.strip()}")
    say(f"  drain: exit code {drain.wait()}")


# Title, services, replicas, the fault, and its moment: the number of segments that the first
# service has then (of 640 in all, or 1,280).
SCENES = [
    ("rolling restart, one replica", 2, 1, restart_all, 40),
    ("rolling restart, two replicas", 3, 2, restart_all, 80),
    ("drain, one replica", 2, 1, drain_one, 40),
    ("drain, two replicas", 3, 2, drain_one, 250),
    ("kill -9, one replica", 2, 1, kill_one, 250),
    ("kill -9, two replicas", 3, 2, kill_one, 250),
]


def main() -> None:
    parser = argparse.ArgumentParser(prog="chaos.trace", description=__doc__)
    parser.add_argument("--spark", default="4.1.4", help="the release in .venv-RELEASE")
    spark = parser.parse_args().spark
    with tempfile.TemporaryDirectory(prefix="lodestone-trace-") as folder:
        plain = PlainSpark(spark, Path(folder))
        expected = plain.answer(question(Job("keyed_rows", SIZES)))
        plain.stop()
        for number, scene in enumerate(SCENES):
            print(f"== {scene[0]}", flush=True)
            directory = Path(folder) / str(number)
            directory.mkdir()
            print("\n".join(run(scene, spark, directory, expected)) + "\n", flush=True)


def run(scene: tuple, spark: str, directory: Path, expected: object) -> list[str]:
    """Returns the lines of one scene, in the order of time."""
    _, services, replicas, trouble, segments = scene
    daemons = [Daemon(directory / f"service{number}") for number in range(services)]
    events: list[tuple[float, str]] = []
    say = lambda line: events.append((time.time(), line))  # noqa: E731
    log = directory / "events"
    log.mkdir()
    conf = {
        "spark.lodestone.mode": "remote",
        "spark.lodestone.services": services_of(daemons),
        "spark.lodestone.replicas": str(replicas),
        "spark.lodestone.lease.ttl": "10s",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": str(log),
        "spark.eventLog.rolling.enabled": "false",
        "spark.eventLog.compress": "false",
    }
    try:
        running = SparkProcess(spark, Job("keyed_rows", SIZES, TWO_EXECUTORS, conf))
        first = daemons[0]
        running.wait_until(lambda: first.status()["segments"] >= segments, "the moment")
        attack = threading.Thread(target=trouble, args=(daemons, say))
        attack.start()
        outcome = running.wait()
        say("the job has ended")
        attack.join()
    finally:
        for daemon in daemons:
            daemon.stop()
    right = outcome.answer == expected
    lines = timeline(events + tasks(log))
    totals = outcome.report["totals"]
    return [
        *lines,
        f"answer {'equal to plain Spark' if right else 'WRONG'}; reasons {outcome.reasons()}; "
        f"{totals['mergedBlocksRead']} blocks read from services, {totals['originalsRead']} others",
    ]


def tasks(log: Path) -> list[tuple[float, str]]:
    """Returns for each stage attempt the start of its first task, and the number of tasks that
    ended in each second, by the kind of their end."""
    begun, ended = {}, Counter()
    (file,) = [path for path in log.rglob("*") if path.is_file()]
    for line in file.read_text().splitlines():
        event = json.loads(line)
        if event["Event"] != "SparkListenerTaskEnd":
            continue
        stage = f"stage {event['Stage ID']}.{event['Stage Attempt ID']}"
        info = event["Task Info"]
        begun[stage] = min(begun.get(stage, info["Launch Time"]), info["Launch Time"])
        how = event["Task End Reason"]["Reason"]
        kind = "" if how == "Success" else f" {how}"
        ended[(info["Finish Time"] // 1000, stage, event["Task Type"], kind)] += 1
    starts = [(at / 1000, f"{stage} begins") for stage, at in begun.items()]
    counts = [
        (second + 0.999, f"{stage}: {count} {kind}s{how} ended")
        for (second, stage, kind, how), count in ended.items()
    ]
    return starts + counts


def timeline(events: list[tuple[float, str]]) -> list[str]:
    events = sorted(events)
    zero = events[0][0]
    return [f"{at - zero:6.1f} s  {line}" for at, line in events]


if __name__ == "__main__":
    main()
