# SPDX-License-Identifier: Apache-2.0
"""Runs the jobs on plain Spark and on Lodestone, in turn, and keeps the figures of both."""

import time
from collections.abc import Sequence

from harness.screen import progress, say

from .jobs import ALL, Job
from .session import Done, Session, Setting
from .verdict import difference

SIDES = ("plain", "lodestone")


def compare(setting: Setting, jobs: Sequence[Job] = ALL) -> dict:
    """Runs each job on one side and then on the other. Both applications stay up, so that a
    disturbance that lasts slows both."""
    say(f"\n== Spark {setting.spark}")
    progress("   starting two applications")
    began = time.monotonic()
    plain = Session(setting, lodestone=False)
    with plain, Session(setting, lodestone=True) as lodestone:
        sessions = (plain, lodestone)
        for session in sessions:
            session.await_ready()
        say(f": {time.monotonic() - began:.0f} s")
        compared = [side_by_side(job, sessions, turn) for turn, job in enumerate(jobs)]
        sentences = lodestone.sentences
        for session in sessions:
            session.begin_stop()
    return {
        "spark": setting.spark,
        "master": setting.master,
        "jobs": compared,
        "sentences": sentences,
        "lastLine": lodestone.last_line(),
        "filesAreExact": all(session.has_counted_all_files for session in sessions),
    }


def side_by_side(job: Job, sessions: Sequence[Session], turn: int) -> dict:
    """Runs a job on both sides. The sides take turns in being first: data that one leaves in memory
    may help the other."""
    progress(f"   {job.title:<14}")
    done: dict[str, Done] = {}
    in_turn = list(zip(SIDES, sessions, strict=True))
    for side, session in in_turn if turn % 2 == 0 else reversed(in_turn):
        done[side] = session.run(job.name)
        progress(f"  {session.name} {done[side].figures['seconds']:5.1f} s")
    differs = difference(done["plain"].answer, done["lodestone"].answer)
    say(f"  {differs or 'same answer'}")
    return {
        "name": job.name,
        "title": job.title,
        "purpose": job.purpose,
        **{side: done[side].figures for side in SIDES},
        "counts": done["lodestone"].counts,
        "shuffles": done["lodestone"].shuffles,
        "difference": differs,
    }
