# SPDX-License-Identifier: Apache-2.0
"""The jobs of the demo: a description of each, and its code inside PySpark.

Each returns an exact answer that JSON can carry.
"""

import json
from dataclasses import dataclass

from tpch import query

SEED = 20260
# Records have 100 bytes. `large` and `small` exchange the same amount, in few blocks and in many.
SIZES = {
    # 40 MB in 16 x 100 blocks of about 25 KB.
    "sort": {"maps": 16, "records": 25_000, "partitions": 100},
    # 40 MB in 8 x 8 blocks of about 640 KB.
    "large": {"maps": 8, "records": 50_000, "partitions": 8},
    # 40 MB in 200 x 200 blocks of about 1 KB, nearly none of them empty.
    "small": {"maps": 200, "records": 2_000, "partitions": 200},
}


@dataclass(frozen=True)
class Job:
    """`title` and `purpose` are for the page."""

    name: str
    title: str
    purpose: str


ALL = [
    Job("q05", "TPC-H query 5", "joins six tables and sums the revenue of each nation"),
    Job("q09", "TPC-H query 9", "joins six tables and sums the profit of each nation and year"),
    Job("q18", "TPC-H query 18", "groups all line items by order, then joins the large orders"),
    Job("q21", "TPC-H query 21", "compares all line items with the others of their orders"),
    Job("sort", "Sort", "sorts records of 100 bytes"),
    Job("large", "Large blocks", "exchanges records that are cut into a few large blocks"),
    Job("small", "Small blocks", "exchanges as many records that are cut into very many blocks"),
]


def run(spark, name: str, sizes: dict) -> list[list[str]]:
    """Runs one job, and returns its answer."""
    if name == "sort":
        return sorted_records(spark, **sizes)
    if name in ("large", "small"):
        return exchanged_records(spark, **sizes)
    return query.rows_of(spark, name)


def sorted_records(spark, maps: int, records: int, partitions: int) -> list[list[str]]:
    """Returns the number of records, whether they are in order, and a checksum."""
    job = spark._jvm.io.lodestone.e2e.RecordSort
    answer = job.run(spark.sparkContext._jsc, SEED, maps, records, partitions)
    assert json.loads(answer)["inOrder"], f"not sorted: {answer}"
    return [[answer]]


def exchanged_records(spark, maps: int, records: int, partitions: int) -> list[list[str]]:
    """Returns the number of records, and a checksum that does not depend on their order."""
    job = spark._jvm.io.lodestone.e2e.RecordExchange
    exchanged = job.exchanged(spark.sparkContext._jsc, SEED, maps, records, partitions)
    return [[job.check(exchanged)]]
