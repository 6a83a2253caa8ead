# SPDX-License-Identifier: Apache-2.0
"""The jobs that the matrix runs, and how large each is: on the plain disk, on the throttled one,
and when it only warms JVMs up."""

from dataclasses import dataclass
from types import MappingProxyType

Sizes = MappingProxyType[str, object]


@dataclass(frozen=True)
class Workload:
    """`name` is a function of `matrix.inside`; sizes are its arguments."""

    name: str
    title: str
    plain: Sizes
    throttled: Sizes
    warm_up: Sizes

    def sizes(self, disk: str) -> Sizes:
        return self.throttled if disk == "throttled" else self.plain

    def warm_up_sizes(self, disk: str) -> Sizes:
        return self.throttled if disk == "throttled" else self.warm_up


def sized(**sizes) -> Sizes:
    return MappingProxyType(sizes)


# At 150 reads a second, plain Spark takes half a minute for some 2,000 blocks, which limits the
# sizes for the throttled disk.
ALL = [
    Workload(
        "sort",
        "sort of 100-byte records",
        # 2 GB in 64 x 200 blocks of about 150 KB.
        plain=sized(maps=64, records=312_500, partitions=200),
        # 48 MB in 24 x 96 blocks of about 21 KB.
        throttled=sized(maps=24, records=20_000, partitions=96),
        warm_up=sized(maps=16, records=60_000, partitions=50),
    ),
    Workload(
        "tiny",
        "blocks of about 1 KB",
        # 1 GB in 1,000 x 1,000 blocks.
        plain=sized(maps=1000, records=10_000, partitions=1000),
        # 2.5 MB in 50 x 50 blocks.
        throttled=sized(maps=50, records=500, partitions=50),
        # All of it: the code in which these tasks spend most time runs once a task, and is compiled
        # after thousands of them.
        warm_up=sized(maps=1000, records=10_000, partitions=1000),
    ),
    Workload(
        "sql",
        "wide aggregation and join",
        plain=sized(rows=3_000_000, keys=1_500_000, maps=64),
        throttled=sized(rows=400_000, keys=200_000, maps=32),
        warm_up=sized(rows=600_000, keys=300_000, maps=32),
    ),
    Workload(
        "groups",
        "aggregation into fewer groups, and join",
        plain=sized(rows=20_000_000, keys=2_000_000, maps=64),
        throttled=sized(rows=800_000, keys=80_000, maps=32),
        warm_up=sized(rows=4_000_000, keys=400_000, maps=32),
    ),
    Workload(
        "rows",
        "wide rows, distributed and sorted",
        # 2 GB in 64 x 200 blocks.
        plain=sized(rows=13_000_000, maps=64, partitions=200),
        throttled=sized(rows=300_000, maps=24, partitions=96),
        warm_up=sized(rows=1_600_000, maps=16, partitions=50),
    ),
    Workload(
        "tpch",
        "TPC-H queries",
        plain=sized(queries="all"),
        throttled=sized(queries="q09+q18+q21"),
        warm_up=sized(queries="all"),
    ),
]
# The default.
USUAL = ["sort", "tiny", "sql", "tpch"]
BY_NAME = {workload.name: workload for workload in ALL}
