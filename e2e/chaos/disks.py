# SPDX-License-Identifier: Apache-2.0
"""Shuffles that spill while one of two local directories is full, fails or hangs: many in one
application, in each mode."""

import random
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from harness.cluster import Cluster
from harness.daemon import Daemon
from harness.faulty_disk import FaultyDisk, faulty_disk
from harness.gates import Gates
from harness.spark_process import Job, Outcome, SparkProcess

from .local_disks import CALLS, is_explained
from .plan import MODES, MOST_ROWS, spilling

Say = Callable[[str], None]
DISK_MB = 300
# The weight of each in the draw.
FAULTS = {"full": 12, "full for a while": 2, "broken": 2, "some calls fail": 3, "hangs": 1}
LASTING = ("full", "broken")
# Each application has a configuration of its own.
RUNS_OF_AN_APPLICATION = 12


@dataclass(frozen=True)
class Run:
    """One job, and the fault of one of the disks during it."""

    seed: int
    kind: str
    sizes: dict
    fault: str
    luck: int

    @property
    def is_lasting(self) -> bool:
        return self.fault in LASTING


def run_of(seed: int) -> Run:
    dice = random.Random(seed)
    kind = dice.choice(["shuffle", "shuffle", "join", "sort"])
    data = dice.randrange(1, 1000)
    shape = {"seed": data, "maps": dice.randrange(2, 7), "partitions": dice.randrange(1, 9)}
    if kind == "sort":
        rows = {"records": dice.randrange(10000, 50000)}
    else:
        rows = {"rows": dice.randrange(30000, 150000)}
    (fault,) = dice.choices(list(FAULTS), list(FAULTS.values()))
    return Run(seed, kind, shape | rows, fault, dice.getrandbits(30))


def run_all(seeds: Iterable[int], spark: str, expected, say: Say, is_plain: bool) -> int:
    """Returns the number of wrong outcomes. The same seeds in one call make the same
    applications."""
    runs = [run_of(seed) for seed in seeds]
    wrong = 0
    for mode in MODES:
        of_mode = [run for run in runs if MODES[run.seed % len(MODES)] == mode]
        for mine in batched(of_mode, RUNS_OF_AN_APPLICATION):
            # Plain Spark answers first: at this time nothing else uses the machine.
            right = [expected(job_of([run]))["answers"][0] for run in mine]
            wrong += run_application(mode, mine, spark, right, say, is_plain)
    return wrong


def batched(runs: list[Run], most: int) -> list[list[Run]]:
    return [runs[start : start + most] for start in range(0, len(runs), most)]


def job_of(runs: list[Run], **options) -> Job:
    return Job(
        "seeded_spills", {"runs": [(run.seed, run.kind, run.sizes) for run in runs]}, **options
    )


def run_application(mode, runs, spark: str, right: list, say: Say, is_plain: bool) -> int:
    dice = random.Random(runs[0].seed)
    conf = spilling(dice) | {
        "spark.lodestone.mode": mode,
        # Each task of a job spills several times.
        MOST_ROWS: dice.choice(["2000", "5000", "15000"]),
        # A task fails some twenty times a second, and a fault that passes lasts up to 1.5 seconds.
        "spark.task.maxFailures": "100",
        "spark.stage.maxConsecutiveAttempts": "40",
    }
    if is_plain:
        conf["spark.shuffle.manager"] = "sort"
    say(f"mode {mode}: {conf}")
    with ExitStack() as put_away:
        folder = Path(
            put_away.enter_context(tempfile.TemporaryDirectory(prefix="lodestone-chaos-"))
        )
        disks = [
            put_away.enter_context(faulty_disk(folder / f"local{number}", DISK_MB))
            for number in range(2)
        ]
        daemon = Daemon(folder / "service")
        put_away.callback(daemon.stop)
        cluster = Cluster(spark, folder / "cluster", local_dirs=[disk.directory for disk in disks])
        put_away.callback(cluster.stop)
        conf["spark.lodestone.services"] = daemon.host_port
        gates = Gates()
        put_away.callback(gates.close)
        job = job_of(runs, master=cluster.master, conf=conf)
        job.arguments["gates"] = gates.address
        running = SparkProcess(spark, job)
        put_away.callback(running.kill)
        failures = [attack(run, disks, gates) for run in runs]
        outcome = running.wait()
    said = outcome.answer
    met = sum(1 for count in failures if count)
    say(f"{said['spilled'] >> 20} MiB spilled, {met} of {len(runs)} runs had calls that failed")
    wrong = judged(runs, said["answers"], right, say)
    if not is_plain and is_silently_plain(mode, outcome):
        say(f"FAILED: mode {mode}, and no shuffle was Lodestone's: {outcome.report['totals']}")
        wrong += 1
    return wrong


def is_silently_plain(mode: str, outcome: Outcome) -> bool:
    """True if Spark wrote all shuffles itself, though Lodestone could write them: such a run has
    tested nothing. In mode auto small shuffles are not merged, but Lodestone writes them."""
    totals, reasons = outcome.report["totals"], outcome.reasons()
    ours = {
        "auto": reasons.get("FEW_BLOCKS"),
        "merge": totals["merged"],
        "remote": totals["remote"],
    }
    is_possible = set(reasons) != {"SERIALIZER_NOT_RELOCATABLE"}
    has_read = any(not isinstance(answer, str) for answer in outcome.answer["answers"])
    return is_possible and has_read and not ours[mode]


def attack(run: Run, disks: list[FaultyDisk], gates: Gates) -> int:
    """Breaks a disk, lets the job run, and mends the disk when the job is over. Returns how many
    calls failed."""
    luck = random.Random(run.luck)
    disk = luck.choice(disks)
    before = disk.failures
    gates.wait_reached(f"run-{run.seed}")
    over = threading.Event()
    breaking = threading.Thread(target=do_harm, args=(run, disk, luck, over))
    begun = luck.choice([True, False])
    if begun:
        breaking.start()
    gates.open(f"run-{run.seed}")
    if not begun:
        breaking.start()
    try:
        gates.wait_reached(f"over-{run.seed}")
    finally:
        over.set()
        breaking.join()
        disk.heal()
    failures = disk.failures - before
    gates.open(f"over-{run.seed}")
    return failures


def do_harm(run: Run, disk: FaultyDisk, luck: random.Random, over: threading.Event) -> None:
    """Keeps up the fault until its time has passed, or the job is over."""
    over.wait(luck.choice([0, luck.uniform(0, 1.5)]))
    if run.fault.startswith("full"):
        # A job spills some 10 MB.
        disk.leave_room(luck.choice([luck.randrange(1 << 19), luck.randrange(6 << 20)]))
    elif run.fault == "hangs":
        disk.hang()
    elif run.fault == "broken":
        disk.fail()
    else:
        disk.fail(frozenset(luck.choice(CALLS)), luck.randrange(1, 4))
        over.wait()
    if not run.is_lasting:
        over.wait(luck.uniform(0.2, 1.5))
        disk.heal()


def judged(runs: list[Run], answers: list, right: list, say: Say) -> int:
    wrong = 0
    counts = Counter()
    for run, answer, expected in zip(runs, answers, right, strict=True):
        has_reason = isinstance(answer, str) and run.is_lasting and is_explained(answer)
        outcome = (
            "right" if answer == expected else "failed and said why" if has_reason else "WRONG"
        )
        counts[f"{run.fault}: {outcome}"] += 1
        if outcome == "WRONG":
            wrong += 1
            say(f"FAILED: {run}\n  answer {answer}\n  and not {expected}")
    say(", ".join(f"{count} {what}" for what, count in sorted(counts.items())))
    return wrong
