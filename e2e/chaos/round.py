# SPDX-License-Identifier: Apache-2.0
"""One round: services, an application, mischief, and a look at what is left."""

import threading
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from harness.daemon import Daemon, wait_until
from harness.freezable_disk import freezable_disk
from harness.spark_process import TWO_EXECUTORS, Job, Outcome, SparkProcess

from .data_files import data_files
from .mischief import Mischief
from .plan import SERVICES, Plan

# Small enough to be filled by what the jobs shuffle, or nearly.
DISK_MB = 96
# A service that was down when the application ended learns of it from the lease that its start gave: 120 s, and a little.
LEASE_S = 150


@dataclass
class Round:
    """What came of it."""

    outcome: Outcome
    counts: dict[str, int]


def job_of(plan: Plan, daemons: list[Daemon], arguments: dict) -> Job:
    services = ",".join(daemon.host_port for daemon in daemons)
    conf = {**plan.conf, "spark.lodestone.services": services}
    return Job("many_shuffles", arguments, TWO_EXECUTORS, conf)


def run_round(
    plan: Plan, spark: str, folder: Path, arguments: dict, say: Callable[[str], None]
) -> tuple[Job, Round]:
    """Runs the job to its end. Each service has a disk of its own, below `folder`."""
    with ExitStack() as put_away:
        daemons, disks = [], []
        for number in range(SERVICES):
            disks.append(put_away.enter_context(freezable_disk(folder / f"disk{number}", DISK_MB)))
            daemons.append(Daemon(disks[-1].place / "service", memory=plan.memory))
            put_away.callback(daemons[-1].stop)
        job = job_of(plan, daemons, arguments)
        running = SparkProcess(spark, job)
        mischief = Mischief(daemons, disks, say)
        outcome, counts = _under_attack(plan, running, mischief)
        _check_services_are_empty(daemons)
        return job, Round(outcome, counts)


def _under_attack(plan, running, mischief) -> tuple[Outcome, dict[str, int]]:
    failures = []

    def act():
        try:
            mischief.run(plan.acts, running)
        except Exception as failure:
            failures.append(failure)

    thread = threading.Thread(target=act)
    thread.start()
    try:
        outcome = running.wait()
    finally:
        mischief.stop()
        thread.join()
        running.kill()
    if failures:
        raise failures[0]
    return outcome, mischief.counts


def _check_services_are_empty(daemons: list[Daemon]) -> None:
    """The application is over: nothing of it stays, in no memory and on no disk."""
    for daemon in daemons:
        wait_until(lambda of=daemon: of.status()["shuffles"] == 0, "its shuffles' end", LEASE_S)
        wait_until(lambda of=daemon: not data_files(of.directory), "its files' end")
