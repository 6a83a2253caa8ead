# SPDX-License-Identifier: Apache-2.0
"""`make chaos`: round after round of real jobs under attack, whose answers must be plain
Spark's."""

import argparse
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from harness import comet
from harness.plain import PlainSpark, question
from harness.spark_process import Job
from tpch import tables

from .disks import run_all
from .plan import Plan, plan_of
from .round import run_round

FAULT_CHARACTERS = 1500
KINDS = (
    "combined", "rows", "numbers", "aggregate", "skew",
    "spilled", "join", "groups", "records", "blocks",
)  # fmt: skip
Expected = Callable[[Job], object]


def arguments():
    parser = argparse.ArgumentParser(prog="chaos", description=__doc__)
    parser.add_argument("--spark", default="4.1.4", help="the release in .venv-RELEASE")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seed", type=int, help="seed of the first round; each next round adds 1")
    parser.add_argument("--turns", type=int, default=2, help="how often a round runs all jobs")
    parser.add_argument(
        "--queries",
        default="q03,q09,q13,q18,q21",
        help="queries of TPC-H, at scale factor 1; '': none",
    )
    parser.add_argument("--kinds", default=",".join(KINDS), help="kinds of jobs in a turn")
    parser.add_argument(
        "--disks",
        action="store_true",
        help="each round is one shuffle, while one of the two local directories is full or broken",
    )
    parser.add_argument(
        "--plain",
        action="store_true",
        help="runs plain Spark under the same plan, which shows its effect on any Spark",
    )
    releases = " or ".join(comet.RELEASES)
    parser.add_argument(
        "--comet", action="store_true", help="Comet runs the queries; for Spark " + releases
    )
    given = parser.parse_args()
    if given.comet and (given.spark not in comet.RELEASES or given.disks or given.plain):
        parser.error(f"--comet is for --spark {releases}, without --disks and --plain")
    if os.geteuid() != 0:
        parser.error("this needs root: it mounts disks that become full or fail")
    return given


def main() -> int:
    given = arguments()
    # An exit by exception unmounts the disks.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))
    first = random.SystemRandom().getrandbits(32) if given.seed is None else given.seed
    seeds = range(first, first + given.rounds)
    with tempfile.TemporaryDirectory(prefix="lodestone-chaos-") as folder:
        plain = PlainSpark(given.spark, Path(folder))
        known = {}

        def expected(job: Job) -> object:
            asked = question(job)
            key = json.dumps(asked, sort_keys=True)
            if key not in known:
                known[key] = plain.answer(asked)
            return known[key]

        try:
            if given.disks:
                failed = run_all(seeds, given.spark, expected, log_line, given.plain)
            else:
                sizes = sizes_of(given)
                failed = sum(not one_round(seed, given, expected, sizes) for seed in seeds)
        finally:
            plain.stop()
    print(f"{given.rounds} rounds from seed {first}, {failed} failed", flush=True)
    return 1 if failed else 0


def log_line(line: str) -> None:
    print(f"  {line}", flush=True)


def sizes_of(given) -> dict:
    queries = [name for name in given.queries.split(",") if name]
    of_tables = {"tables": str(tables.make()), "queries": queries} if queries else {}
    return {"turns": given.turns, "kinds": given.kinds.split(",")} | of_tables


def one_round(seed: int, given, expected: Expected, sizes: dict) -> bool:
    """Runs the round of a seed. Returns whether it had no fault."""
    plan = plan_of(seed)
    fields = {key.rsplit(".", 1)[1]: value.rsplit(".", 1)[-1] for key, value in plan.conf.items()}
    print(
        f"round with --seed {seed}: {plan.services} services, {plan.memory}, {fields}", flush=True
    )
    if given.plain:
        plan.conf["spark.shuffle.manager"] = "sort"
    # Plain Spark answers first: at this time nothing else uses the machine.
    right = expected(Job("many_shuffles", sizes, conf=plan.conf))["answers"]
    if given.comet:
        plan.conf.update(comet.configuration(given.spark))
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="lodestone-chaos-") as folder:
        try:
            _, done = run_round(plan, given.spark, Path(folder), sizes, log_line)
        except Exception as failure:
            print(f"  FAILED: {failure}", flush=True)
            return False
    faults = done.faults(plan, right)
    if given.comet and not comet.shuffles_of(done.outcome.report):
        faults.append("Comet has run no shuffle")
    log_line(f"{time.monotonic() - began:.0f} s, {summary_of(plan, done)}")
    for fault in faults:
        print(f"  FAILED: {fault[:FAULT_CHARACTERS]}", flush=True)
    return not faults


def summary_of(plan: Plan, done) -> str:
    said = done.outcome.answer
    totals = done.outcome.report.get("totals", {})
    failed = f"{done.failed()} failed and said why, " if plan.is_lasting else ""
    return (
        f"{sum(done.counts.values())} acts, {len(said['answers'])} jobs, {failed}"
        f"{said['spilled'] >> 20} MiB spilled, "
        f"{said['killed']} tasks killed ({said['killed_in_spill']} in a spill), "
        f"{totals.get('shuffles')} shuffles, {totals.get('merged')} merged, "
        f"{totals.get('remote')} remote: {json.dumps(done.outcome.reasons())}"
    )


if __name__ == "__main__":
    sys.exit(main())
