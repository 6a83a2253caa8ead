# SPDX-License-Identifier: Apache-2.0
"""Comet's native shuffles run over Lodestone: the plans stay Comet's, and the answers are those of
plain Spark."""

import os
import signal
from dataclasses import replace

import pytest

from harness import comet
from harness.daemon import free_port
from harness.paths import NOT_41
from harness.processes import executors_of
from harness.spark_process import ONE_EXECUTOR, TWO_EXECUTORS, Job
from tpcds import answer
from tpcds import query as tpcds
from tpcds import tables as tpcds_tables
from tpch import query, tables

# All 22 run in both modes with --all-lines only. Tests with a fault run q03.
QUERIES = {"merge": ["q18"], "remote": ["q13"]}
# Tables in many small pieces: 20 maps of lineitem.
SCALE, PIECE = "0.02", "256KB"
# Of TPC-DS: subqueries, deviations, windows, a rollup, and full outer joins.
DECISIONS = ["q4", "q6", "q14a", "q35", "q39a", "q51", "q67", "q72", "q95", "q97"]
OF_TPCDS = "0.01", "512KB"
CONF = {
    "spark.sql.files.maxPartitionBytes": "256k",
    # Otherwise nearly all joins of such small tables need no shuffle.
    "spark.sql.autoBroadcastJoinThreshold": "-1",
}


def job_of(spark: str, service: str, queries: list[str], mode="merge", damage=False, **conf) -> Job:
    """Returns queries on Comet with this release of Spark."""
    arguments = {"tables": str(tables.small(SCALE, PIECE)), "queries": list(queries)}
    if damage:
        arguments["damage"] = True
    ours = {"spark.lodestone.services": service, "spark.lodestone.mode": mode}
    settings = CONF | comet.configuration(spark) | ours | conf
    return Job("shipments", arguments, master=ONE_EXECUTOR, conf=settings)


def plain(job: Job) -> Job:
    """Returns the same job as plain Spark answers it."""
    arguments = {key: value for key, value in job.arguments.items() if key != "damage"}
    return Job(job.name, arguments, conf=CONF)


@pytest.mark.lines(*comet.LINES)
@pytest.mark.parametrize("mode", ["merge", "remote"])
def test_comets_shuffles_have_plain_sparks_answers(
    mode, request, spark, start_daemon, start_job, plain_answer
):
    queries = query.NAMES if request.config.getoption("--all-lines") else QUERIES[mode]
    job = job_of(spark, start_daemon().host_port, queries, mode)
    outcome = start_job(job).wait()
    assert outcome.answer == plain_answer(plain(job))
    shuffles = comet.shuffles_of(outcome.report)
    assert shuffles
    for one in shuffles:
        if one["maps"] > 1 or mode == "remote":
            assert one["state"] == {"merge": "merged", "remote": "remote"}[mode], one
            assert one["originalsRead"] == 0, one
            assert one["mergedBlocksRead"] > 0, one


@pytest.mark.seldom
@pytest.mark.lines("4.1")
@pytest.mark.parametrize("mode", ["merge", "remote"])
def test_queries_of_tpcds_on_comet_have_plain_sparks_answers(
    mode, spark, start_daemon, start_job, plain_answer
):
    arguments = {"tables": str(tpcds_tables.make(*OF_TPCDS)), "queries": DECISIONS}
    job = job_of(spark, start_daemon().host_port, [], mode)
    outcome = start_job(replace(job, name="decisions", arguments=arguments)).wait(1500)
    right = plain_answer(Job("decisions", arguments, conf=CONF))
    for name, wanted, found in zip(DECISIONS, right, outcome.answer, strict=True):
        assert wanted, f"{name} asks nothing of these tables"
        assert not answer.difference(wanted, found, tpcds.is_exact(name)), name
    shuffles = comet.shuffles_of(outcome.report)
    assert shuffles
    # Subqueries that find no row push nothing.
    left = [one for one in shuffles if one["state"] == "plain" and one["maps"] > 1]
    assert all(set(one["reasons"]) == {"NOTHING_PUSHED"} for one in left), left
    taken = [one for one in shuffles if one["state"] == {"merge": "merged"}.get(mode, mode)]
    assert len(taken) > 10 * len(left)
    assert sum(one["mergedBlocksRead"] for one in taken) > 0
    assert sum(one["originalsRead"] for one in taken) == 0


@pytest.mark.lines("4.1")
def test_no_executor_writes_a_map_output_while_native_code_pushes(spark, start_daemon, start_job):
    daemon = start_daemon()
    running = start_job(job_of(spark, daemon.host_port, ["q09"], "remote"))
    running.wait_until(lambda: daemon.status()["segments"] >= 500, "500 segments pushed")
    assert not list(running.local_dirs.rglob("shuffle_*"))
    shuffles = comet.shuffles_of(running.wait().report)
    assert {one["state"] for one in shuffles} == {"remote"}


@pytest.mark.lines(*comet.LINES, seldom=NOT_41)
def test_outputs_of_comet_that_no_service_takes_stay_on_executors(spark, start_job, plain_answer):
    job = job_of(spark, f"127.0.0.1:{free_port()}", ["q03"], "remote")
    outcome = start_job(job).wait()
    assert outcome.answer == plain_answer(plain(job))
    shuffles = comet.shuffles_of(outcome.report)
    assert shuffles
    assert all(one["mergedBlocksRead"] == 0 for one in shuffles)
    assert outcome.reasons()["NO_SERVICE"] > 0


@pytest.mark.lines(*comet.LINES, seldom=NOT_41)
def test_a_daemon_that_dies_under_comet_costs_no_row(spark, start_daemon, start_job, plain_answer):
    daemon = start_daemon()
    job = job_of(spark, daemon.host_port, ["q03"])
    running = start_job(job)
    running.wait_until(lambda: daemon.status()["segments"] >= 500, "500 segments merged")
    daemon.kill()
    outcome = running.wait()
    assert outcome.answer == plain_answer(plain(job))
    assert sum(one["originalsRead"] for one in comet.shuffles_of(outcome.report)) > 0


@pytest.mark.lines(*comet.LINES, seldom=NOT_41)
def test_an_executor_that_is_killed_while_comet_pushes_costs_no_row(
    spark, start_daemon, start_job, plain_answer
):
    daemon = start_daemon()
    job = replace(job_of(spark, daemon.host_port, ["q03"], "remote"), master=TWO_EXECUTORS)
    running = start_job(job)
    # The first of some thousands: map tasks push then.
    running.wait_until(lambda: daemon.status()["segments"] >= 100, "100 segments pushed")
    os.kill(executors_of(running.process.pid)[0], signal.SIGKILL)
    outcome = running.wait()
    assert outcome.answer == plain_answer(plain(job))
    assert "Lost executor" in outcome.log
    shuffles = comet.shuffles_of(outcome.report)
    assert shuffles
    assert all(one["state"] == "remote" for one in shuffles)


@pytest.mark.lines(*comet.LINES, seldom=NOT_41)
def test_a_damaged_map_output_of_comet_is_written_again(spark, start_job, plain_answer):
    nobody = f"127.0.0.1:{free_port()}"
    job = job_of(spark, nobody, queries=["q01"], damage=True)
    outcome = start_job(job).wait()
    assert outcome.answer == plain_answer(plain(job))
    assert outcome.reasons()["ORIGINAL_MISMATCH"] > 0


@pytest.mark.lines(*comet.LINES)
def test_comet_plans_its_shuffles_in_every_session(spark, start_job):
    arguments = {"tables": str(tables.small(SCALE, PIECE)), "name": "q01"}
    conf = CONF | comet.configuration(spark)
    outcome = start_job(Job("native_shuffles", arguments, conf=conf)).wait()
    assert outcome.answer == [True, True, True]
