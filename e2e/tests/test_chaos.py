# SPDX-License-Identifier: Apache-2.0
"""Two rounds of what `make chaos` does for hours: everything goes wrong at once, and the answer is
plain Spark's."""

import pytest

from chaos.plan import plan_of
from chaos.round import run_round

# Of each sort of job one, with Python and without: half of what `make chaos` runs in a turn.
SIZES = {"turns": 1, "kinds": ["rows", "numbers", "aggregate", "spilled", "join"]}


# The first in mode merge, with tasks that want memory, the second in mode remote; executors, tasks,
# services and disks are hit in both.
@pytest.mark.lines("4.1")
@pytest.mark.parametrize("seed", [7, 17])
def test_kills_freezes_full_disks_and_damage_do_not_change_the_answer(
    seed, spark, plain_answer, tmp_path
):
    plan = plan_of(seed)
    job, done = run_round(plan, spark, tmp_path, SIZES, print)
    assert done.faults(plan, plain_answer(job)["answers"]) == []
