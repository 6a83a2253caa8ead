# SPDX-License-Identifier: Apache-2.0
"""Two rounds of `make chaos`: many faults happen at once, and the answer is plain Spark's."""

import pytest

from chaos.plan import plan_of
from chaos.round import run_round

# The first seed gives mode merge and tasks that need much memory, the second gives mode remote.
# Both hit executors, tasks, services and disks. The jobs of both together are half of a turn of
# `make chaos`, with Python and without.
KINDS = {7: ["rows", "aggregate", "spilled"], 17: ["numbers", "join", "spilled"]}


@pytest.mark.lines("4.1")
@pytest.mark.parametrize("seed", [7, pytest.param(17, marks=pytest.mark.seldom)])
def test_kills_freezes_full_disks_and_damage_do_not_change_the_answer(
    seed, spark, plain_answer, tmp_path
):
    plan = plan_of(seed)
    sizes = {"turns": 1, "kinds": KINDS[seed]}
    job, done = run_round(plan, spark, tmp_path, sizes, print)
    assert done.faults(plan, plain_answer(job)["answers"]) == []
