# SPDX-License-Identifier: Apache-2.0
"""Two rounds of what `make chaos` does for hours: everything goes wrong at once, and the answer is plain Spark's."""

import pytest

from chaos.plan import plan_of
from chaos.round import run_round

SIZES = {"turns": 1}


@pytest.mark.lines("4.1")
@pytest.mark.parametrize("seed", [1, 2])
def test_whatever_is_killed_frozen_filled_or_damaged_the_answer_is_right(
    seed, spark, plain_answer, tmp_path
):
    job, done = run_round(plan_of(seed), spark, tmp_path, SIZES, print)
    assert done.outcome.answer == plain_answer(job)
