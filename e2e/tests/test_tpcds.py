# SPDX-License-Identifier: Apache-2.0
"""Queries of TPC-DS have plain Spark's answers in every mode, and their shuffles are not left to
Spark."""

import pytest

from harness.spark_process import Job
from tpcds import answer, query, tables

QUERIES = {
    "q6": "HAVING, an aggregate of the same table beside it",
    "q35": "EXISTS, one of two",
    "q39a": "deviations, joined with themselves",
    "q51": "running sums by windows, a full outer join",
    "q67": "a rollup of eight columns, ranks",
    "q97": "a full outer join of two aggregates",
}
# All run in every mode with --all-lines only.
SOME_QUERIES = {"auto": ["q35"], "merge": ["q67"], "remote": ["q97"]}
# Tables as small as the generator makes them, in many small pieces: 17 maps and more of a fact.
SCALE, PIECE = "0.01", "512KB"
CONF = {
    "spark.sql.files.maxPartitionBytes": "512k",
    # Mode auto merges shuffles of 10,000 blocks and more. Adaptive execution reads many partitions
    # in one task.
    "spark.sql.shuffle.partitions": "640",
    "spark.sql.adaptive.enabled": "true",
    # Otherwise nearly all joins of such small tables need no shuffle,
    "spark.sql.autoBroadcastJoinThreshold": "64k",
    # or read one side of it where it was written.
    "spark.sql.adaptive.localShuffleReader.enabled": "false",
}


def is_merged(totals: dict) -> bool:
    return totals["merged"] > 0 and totals["mergedBlocksRead"] > totals["originalsRead"]


MODES = {
    "auto": lambda totals: totals["merged"] > 0 and totals["mergedBlocksRead"] > 0,
    "merge": is_merged,
    "remote": lambda totals: totals["remote"] > 0 and totals["plain"] == 0,
}


@pytest.mark.lines("4.1")
@pytest.mark.parametrize("mode", MODES)
def test_queries_of_tpcds_have_plain_sparks_answers(
    mode, request, start_daemon, start_job, plain_answer
):
    queries = list(QUERIES) if request.config.getoption("--all-lines") else SOME_QUERIES[mode]
    conf = {"spark.lodestone.mode": mode, "spark.lodestone.services": start_daemon().host_port}
    arguments = {"tables": str(tables.make(SCALE, PIECE)), "queries": queries}
    job = Job("decisions", arguments, conf=CONF | conf)
    outcome = start_job(job).wait()
    for name, wanted, found in zip(queries, plain_answer(job), outcome.answer, strict=True):
        assert wanted, f"{name} asks nothing of these tables"
        assert not answer.difference(wanted, found, query.is_exact(name)), name
    assert MODES[mode](outcome.report["totals"]), outcome.report["totals"]


A_ROW = [[1, "1.10", 0.1, None]]


@pytest.mark.parametrize(
    "found",
    [
        [],
        [*A_ROW, *A_ROW],
        [[1, "1.10", 0.1]],
        [[1, "1.1", 0.1, None]],
        [[1, "1.10", 0.1, "None"]],
        [[1.0, "1.10", 0.1, None]],
        [[1, "1.10", 0.1000001, None]],
        [[1, "1.10", None, None]],
    ],
)
def test_an_answer_with_another_row_or_value_is_not_the_same(found):
    for is_exact in (True, False):
        assert answer.difference(A_ROW, found, is_exact)


def test_the_last_digit_of_a_double_counts_unless_doubles_were_added_up():
    assert answer.difference([[0.3]], [[0.30000000000000004]], is_exact=True)
    assert not answer.difference([[0.3]], [[0.30000000000000004]], is_exact=False)
    assert not answer.difference([[float("nan")]], [[float("nan")]], is_exact=False)


def test_rows_that_are_equal_in_the_order_of_a_query_are_ordered_by_their_columns():
    text = query.whole("SELECT a, b FROM (SELECT * FROM t ORDER BY c) ORDER BY a\nLIMIT 100\n")
    assert query.in_total_order(text, 2).endswith(" ORDER BY a, 1, 2")
    inner = query.whole("SELECT a, rank() OVER (ORDER BY a) FROM t limit 10 ;")
    assert query.in_total_order(inner, 2).endswith("FROM t\nORDER BY 1, 2")


def test_no_limit_is_left_in_any_query():
    assert len(query.names()) == query.COUNT
    left = [name for name in query.names() if "limit" in query.whole(query.text_of(name)).lower()]
    assert left == []
