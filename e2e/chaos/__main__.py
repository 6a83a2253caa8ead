# SPDX-License-Identifier: Apache-2.0
"""`make chaos`: round after round of real jobs under attack, whose answers must be plain Spark's."""

import argparse
import json
import os
import random
import sys
import tempfile
import time
from pathlib import Path

from harness.plain import PlainSpark, question
from harness.spark_process import Job
from tpch import tables

from .plan import plan_of
from .round import run_round


def arguments():
    parser = argparse.ArgumentParser(prog="chaos", description=__doc__)
    parser.add_argument("--spark", default="4.1.4", help="the release in .venv-RELEASE")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seed", type=int, help="of the first round; the next ones follow it")
    parser.add_argument("--turns", type=int, default=2, help="how often a round runs all jobs")
    parser.add_argument(
        "--queries", default="q03,q09,q13,q18,q21", help="of TPC-H, at scale factor 1; none: ''"
    )
    given = parser.parse_args()
    if os.geteuid() != 0:
        parser.error("each service gets a disk of its own, to be filled: only root can mount those")
    return given


def main() -> int:
    given = arguments()
    first = random.SystemRandom().getrandbits(32) if given.seed is None else given.seed
    sizes = {"turns": given.turns}
    queries = [name for name in given.queries.split(",") if name]
    if queries:
        sizes |= {"tables": str(tables.make()), "queries": queries}
    failed = 0
    with tempfile.TemporaryDirectory(prefix="lodestone-chaos-") as folder:
        plain = PlainSpark(given.spark, Path(folder))
        try:
            for seed in range(first, first + given.rounds):
                failed += not one_round(seed, given.spark, plain, sizes)
        finally:
            plain.stop()
    print(f"{given.rounds} rounds from seed {first}, {failed} failed", flush=True)
    return 1 if failed else 0


def tell(line: str) -> None:
    print(f"  {line}", flush=True)


def one_round(seed: int, spark: str, plain: PlainSpark, sizes: dict) -> bool:
    """Whether the answer was right."""
    plan = plan_of(seed)
    told = {key.rsplit(".", 1)[1]: value.rsplit(".", 1)[-1] for key, value in plan.conf.items()}
    print(f"round with --seed {seed}: memory {plan.memory}, {told}", flush=True)
    # Before, so that it has the machine for itself.
    expected = plain.answer(question(Job("many_shuffles", sizes, conf=plan.conf)))
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="lodestone-chaos-") as folder:
        try:
            _, done = run_round(plan, spark, Path(folder), sizes, tell)
        except Exception as failure:
            print(f"  FAILED: {failure}", flush=True)
            return False
    took = time.monotonic() - began
    totals = done.outcome.report["totals"]
    print(
        f"  {took:.0f} s, {sum(done.counts.values())} acts, {totals['shuffles']} shuffles, "
        f"{totals['remote']} remote: {json.dumps(done.outcome.reasons())}",
        flush=True,
    )
    if done.outcome.answer != expected:
        print("  FAILED: another answer than plain Spark's", flush=True)
        return False
    return True


if __name__ == "__main__":
    sys.exit(main())
