# SPDX-License-Identifier: Apache-2.0
"""Queries of TPC-H in mode remote, again and again, while a test restarts the services."""

from tpch.small import ADAPTIVE, small_tables

from .gates import Gates
from .spark_process import Outcome

# Joins of three to six tables, a semi-join, an anti-join, and aggregates in two steps.
QUERIES = ["q03", "q05", "q09", "q13", "q18", "q21"]
IN_TURNS = {
    **ADAPTIVE,
    "spark.lodestone.mode": "remote",
    # All stages of all turns, and not the last thousand: the test looks at each.
    "spark.ui.retainedStages": "100000",
}


def arguments_of(gates: Gates) -> dict:
    """Returns the arguments of the job `shipments_in_turns`."""
    return {"tables": small_tables(), "queries": QUERIES, "gates": gates.address}


def wait_for_a_turn(gates: Gates) -> None:
    """Waits until the job has answered all queries once, and goes on."""
    gates.open_all(but=("over",))
    gates.wait_reached("turn-1")


def assert_no_task_ran_again(outcome: Outcome) -> None:
    """Checks that no stage had a second attempt, no task failed, and services had all data."""
    assert {attempt for attempt, _ in outcome.stages} == {0}
    assert "Lost task" not in outcome.log
    totals = outcome.report["totals"]
    # Adaptive execution registers some shuffles that no stage needs.
    assert totals["remote"] > 0 and totals["plain"] == 0, totals
    assert totals["originalsRead"] == 0, totals
    # New shuffles and segments go to the other services while one is drained or away.
    assert set(outcome.reasons()) <= {"SERVICE_LEFT_OUT", "PUSH_SERVICE_DRAINING"}, (
        outcome.reasons()
    )
