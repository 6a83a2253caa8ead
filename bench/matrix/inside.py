# SPDX-License-Identifier: Apache-2.0
"""The jobs, inside PySpark. Each returns an exact answer that JSON can carry, and the seconds of
its parts."""

import time
from collections.abc import Callable

from pyspark.sql import Observation, SparkSession, functions

from tpcds import query as decisions
from tpch import query

SEED = 20260
WIDE_COLUMNS = 16
DIMENSION_COLUMNS = 8
JOIN_PARTITIONS = 32

# Called with the RDD of a shuffle before a task reads it.
BeforeReduce = Callable[[object], None]


def sort(spark: SparkSession, before: BeforeReduce, maps: int, records: int, partitions: int):
    """Sorts `records` of 100 bytes of each map; the reduce tasks check their order, count them and
    sum them."""
    job = spark._jvm.io.lodestone.e2e.RecordSort
    shuffled = job.sorted(spark.sparkContext._jsc, SEED, maps, records, partitions)
    before(shuffled)
    answer = job.check(shuffled)
    if '"inOrder": true' not in answer:
        raise ValueError(f"not sorted: {answer}")
    return answer, {}


def tiny(spark: SparkSession, before: BeforeReduce, maps: int, records: int, partitions: int):
    """Shuffles `records` of 100 bytes of each map; the reduce tasks count them and sum them."""
    job = spark._jvm.io.lodestone.e2e.RecordExchange
    shuffled = job.exchanged(spark.sparkContext._jsc, SEED, maps, records, partitions)
    before(shuffled)
    return job.check(shuffled), {}


def sql(spark: SparkSession, _before: BeforeReduce, rows: int, keys: int, maps: int):
    """Joins many aggregates of many groups with a table of as many rows. Nothing can be compressed
    or summed up before the shuffle."""
    wide = [f"xxhash64(id, {i}) as c{i}" for i in range(WIDE_COLUMNS)]
    facts = spark.range(0, rows, 1, maps).selectExpr(f"id * 7919 % {keys} as k", *wide)
    largest = [f"max(c{i}) as m{i}" for i in range(WIDE_COLUMNS)]
    facts.createOrReplaceTempView("facts")
    attributes = [f"xxhash64(id, {i}, 'd') as d{i}" for i in range(DIMENSION_COLUMNS)]
    dimension = spark.range(0, keys, 1, JOIN_PARTITIONS).selectExpr("id as k", *attributes)
    dimension.createOrReplaceTempView("dimension")
    found = spark.sql(f"""
        with grouped as (select k, count(*) as n, {", ".join(largest)} from facts group by k)
        select count(*), sum(n), bit_xor(xxhash64(*)) from grouped join dimension using (k)
    """)
    return [[str(value) for value in row] for row in found.collect()], {}


def groups(spark: SparkSession, _before: BeforeReduce, rows: int, keys: int, maps: int):
    """Joins a few aggregates, of many rows to a group, with a table of the groups."""
    facts = spark.range(0, rows, 1, maps).selectExpr(
        f"id * 7919 % {keys} as k", "id as v", "xxhash64(id) as w"
    )
    facts.createOrReplaceTempView("facts")
    dimension = spark.range(0, keys, 1, JOIN_PARTITIONS).selectExpr("id as k", "xxhash64(id) as d")
    dimension.createOrReplaceTempView("dimension")
    found = spark.sql("""
        with grouped as (select k, count(*) as n, sum(v) as s, max(w) as m from facts group by k)
        select count(*), sum(n), bit_xor(xxhash64(*)) from grouped join dimension using (k)
    """)
    return [[str(value) for value in row] for row in found.collect()], {}


def rows(spark: SparkSession, _before: BeforeReduce, rows: int, maps: int, partitions: int):
    """Distributes wide rows by their key, and sorts each partition by it."""
    wide = [f"xxhash64(id, {i}) as c{i}" for i in range(WIDE_COLUMNS)]
    made = spark.range(0, rows, 1, maps).selectExpr("xxhash64(id) as k", *wide)
    # Spark removes a sort below an aggregate, but none below an observation.
    seen = Observation()
    # Spark 3.5 has no star in an observation.
    digest = functions.expr(f"bit_xor(xxhash64({', '.join(made.columns)}))").alias("digest")
    ordered = made.repartition(partitions, "k").sortWithinPartitions("k")
    observed = ordered.observe(seen, functions.count("*").alias("rows"), digest)
    observed.write.format("noop").mode("overwrite").save()
    return {name: str(value) for name, value in seen.get.items()}, {}


def tpch(spark: SparkSession, _before: BeforeReduce, queries: str):
    """Runs TPC-H queries, one after the other."""
    chosen = query.NAMES if queries == "all" else queries.split("+")
    return one_by_one(chosen, lambda name: query.rows_of(spark, name))


def tpcds(spark: SparkSession, _before: BeforeReduce, queries: str):
    """Runs TPC-DS queries, one after the other."""
    texts = {name: decisions.prepared(spark, name) for name in queries.split("+")}
    return one_by_one(texts, lambda name: decisions.rows_of(spark, texts[name]))


def one_by_one(names, rows_of: Callable[[str], list]):
    """Returns the answer to each, and its seconds."""
    answers, seconds = {}, {}
    for name in names:
        began = time.monotonic()
        answers[name] = rows_of(name)
        seconds[name] = round(time.monotonic() - began, 3)
    return answers, seconds


BY_NAME = {
    "sort": sort,
    "tiny": tiny,
    "sql": sql,
    "groups": groups,
    "rows": rows,
    "tpch": tpch,
    "tpcds": tpcds,
}
