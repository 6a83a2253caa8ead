# SPDX-License-Identifier: Apache-2.0
"""The jobs, which differ in what decides about a shuffle: the size of blocks, the disk, and what
Lodestone's writer can do."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class PlanJob:
    """`workload` is a function of `matrix.inside`. Throttled: on a disk of 150 reads a second."""

    name: str
    title: str
    workload: str
    sizes: Mapping[str, object]
    is_throttled: bool = False


ALL = [
    PlanJob(
        "tiny",
        "400 x 400 blocks of about 1 KB, in the page cache",
        "tiny",
        {"maps": 400, "records": 4_000, "partitions": 400},
    ),
    PlanJob(
        "throttled",
        "24 x 96 blocks of about 21 KB, on a disk of 150 reads a second",
        "sort",
        {"maps": 24, "records": 20_000, "partitions": 96},
        is_throttled=True,
    ),
    PlanJob(
        "sort",
        "16 x 200 blocks of about 150 KB, in the page cache",
        "sort",
        {"maps": 16, "records": 312_500, "partitions": 200},
    ),
    PlanJob("tpch", "Q3, Q9, Q18 and Q21 of TPC-H", "tpch", {"queries": "q03+q09+q18+q21"}),
    PlanJob(
        "groups",
        "a SQL aggregation that combines before the shuffle, and a join",
        "groups",
        {"rows": 6_000_000, "keys": 600_000, "maps": 32},
    ),
]
BY_NAME = {job.name: job for job in ALL}
