# SPDX-License-Identifier: Apache-2.0
"""One round: services, an application, mischief, and a check that nothing is left."""

import os
import threading
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from harness.cluster import Cluster
from harness.daemon import Daemon, services_of, wait_until
from harness.faulty_disk import faulty_disk
from harness.freezable_disk import freezable_disk
from harness.processes import daemons_below
from harness.spark_process import Job, Outcome, SparkProcess

from .data_files import data_files
from .local_disks import is_explained
from .mischief import Mischief, Victims
from .plan import Plan

# Small enough that the shuffles of the jobs fill it, or nearly.
DISK_MB = 96
# Enough for the files of executors, including those of failed attempts.
LOCAL_DISK_MB = 400
LOCAL_DISKS = 2
# A service that was down when the application ended waits for the end of the lease that its own
# start gave: 120 s, and a little more.
LEASE_S = 150


@dataclass
class Round:
    """The outcome of a round."""

    outcome: Outcome
    counts: dict[str, int]

    @property
    def answers(self) -> list:
        """The answer of each job of the round, or the reason of its failure."""
        return self.outcome.answer["answers"]

    def faults(self, plan: Plan, expected: list) -> list[str]:
        """Returns a line for each fault: an answer that differs from plain Spark's, or a failed job
        whose message does not name a disk that stayed broken."""
        return [
            f"job {number}: {answer}"
            for number, (answer, right) in enumerate(zip(self.answers, expected, strict=True))
            if answer != right and not (plan.is_lasting and failed(answer) and is_explained(answer))
        ]

    def failed(self) -> int:
        """Returns how many jobs failed."""
        return sum(map(failed, self.answers))


def failed(answer: object) -> bool:
    return isinstance(answer, str)


def job_of(plan: Plan, victims: Victims, arguments: dict) -> Job:
    services = services_of(victims.daemons)
    named = {"spark.lodestone.services": services} if services else {}
    handles = {"kills": str(victims.kills)}
    return Job("many_shuffles", arguments | handles, victims.cluster.master, plan.conf | named)


def run_round(
    plan: Plan, spark: str, folder: Path, arguments: dict, say: Callable[[str], None]
) -> tuple[Job, Round]:
    """Runs the job to its end. Each service has a disk of its own, below `folder`; the executors
    share two. The driver uses none of these: without its disk it cannot begin a stage, with
    Lodestone or without."""
    with ExitStack() as put_away:
        victims = _victims(plan, spark, folder, put_away)
        job = job_of(plan, victims, arguments)
        running = SparkProcess(spark, job)
        mischief = Mischief(victims, say)
        outcome, counts = _under_attack(plan, running, mischief)
        for disk in victims.local_disks:
            disk.heal()
        _check_services_are_empty(victims.daemons)
        wait_until(
            lambda: not daemons_below(folder / "local"), "the started services' end", LEASE_S
        )
        return job, Round(outcome, counts)


def _victims(plan: Plan, spark: str, folder: Path, put_away: ExitStack) -> Victims:
    local = [
        put_away.enter_context(faulty_disk(folder / "local" / f"local{number}", LOCAL_DISK_MB))
        for number in range(LOCAL_DISKS)
    ]
    daemons, disks = [], []
    for number in range(plan.services):
        disks.append(put_away.enter_context(freezable_disk(folder / f"disk{number}", DISK_MB)))
        service = disks[-1].directory / "service"
        daemons.append(Daemon(service, memory=plan.memory, reserve="auto"))
        put_away.callback(daemons[-1].stop)
    cluster = Cluster(spark, folder / "cluster", local_dirs=[disk.directory for disk in local])
    put_away.callback(cluster.stop)
    kills = folder / "kills"
    os.mkfifo(kills)
    return Victims(cluster, daemons, disks, local, kills)


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
    """Checks that no service keeps data of the application, which is over, in memory or on disk."""
    for daemon in daemons:
        wait_until(lambda of=daemon: of.status()["shuffles"] == 0, "its shuffles' end", LEASE_S)
        wait_until(lambda of=daemon: not data_files(of.directory), "its files' end")
