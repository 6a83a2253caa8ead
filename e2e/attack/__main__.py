# SPDX-License-Identifier: Apache-2.0
"""`make attack`: hostile clients and broken disks, one after another, each against a daemon with
200 honest connections. Prints what these notice."""

import argparse

from harness.screen import say

from .attacks import ALL, BY_NAME
from .siege import MEMORY_MIB, Outcome, Times, besiege
from .verdict import verdict

COLUMNS = ("attack", "p99 before", "during", "slowest", "after", "health", "failed", "MiB", "")


def main() -> int:
    asked = arguments()
    attacks = [BY_NAME[name] for name in asked.attacks.split(",")] if asked.attacks else ALL
    say(
        f"{asked.connections} honest connections, {asked.seconds:g} s of attack, "
        f"--memory {MEMORY_MIB}MiB; milliseconds; MiB: the daemon's peak"
    )
    say(line(*COLUMNS))
    bad = 0
    for attack in attacks:
        outcome = besiege(attack, Times(asked.calm, asked.seconds), asked.connections)
        wrong = verdict(attack, outcome)
        bad += bool(wrong)
        say(
            line(
                attack.name,
                *(f"{1000 * seconds:.1f}" for seconds in seconds_of(outcome)),
                f"{len(outcome.failures)}/{outcome.requests}",
                f"{outcome.peak_mib:.0f}",
                wrong,
            )
        )
        for text in [*outcome.notes, *sorted(set(outcome.failures))[:3]]:
            say(f"    {text[:150]}")
    return 1 if bad else 0


def seconds_of(outcome: Outcome) -> tuple[float, ...]:
    of_requests = outcome.before_s, outcome.during_s, outcome.slowest_s, outcome.after_s
    return *of_requests, outcome.health_s


def line(name: str, *cells: str) -> str:
    *numbers, last = cells
    return (f"{name:<30}" + "".join(f"{cell:>12}" for cell in numbers) + f"  {last}").rstrip()


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="attack", description=__doc__)
    parser.add_argument("--attacks", help=f"some of {', '.join(BY_NAME)}; all without it")
    parser.add_argument("--connections", type=int, default=200, help="honest ones")
    parser.add_argument("--seconds", type=float, default=10.0, help="how long an attack lasts")
    parser.add_argument("--calm", type=float, default=3.0, help="seconds before and after it")
    return parser.parse_args()


if __name__ == "__main__":
    raise SystemExit(main())
