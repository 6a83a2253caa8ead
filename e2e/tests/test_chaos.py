# SPDX-License-Identifier: Apache-2.0
"""Two rounds of `make chaos`: many faults happen at once, and the answer is plain Spark's."""

import pytest

from chaos.plan import plan_of
from chaos.round import run_round

# One job of each sort, with Python and without: half of a turn of `make chaos`.
SIZES = {"turns": 1, "kinds": ["rows", "numbers", "aggregate", "spilled", "join"]}


# The first seed gives mode merge and tasks that need much memory, the second gives mode remote.
# Both hit executors, tasks, services and disks.
@pytest.mark.lines("4.1")
@pytest.mark.parametrize("seed", [7, 17])
def test_kills_freezes_full_disks_and_damage_do_not_change_the_answer(
    seed, spark, plain_answer, tmp_path
):
    plan = plan_of(seed)
    job, done = run_round(plan, spark, tmp_path, SIZES, print)
    assert done.faults(plan, plain_answer(job)["answers"]) == []
