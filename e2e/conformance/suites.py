# SPDX-License-Identifier: Apache-2.0
"""The suites of Spark that run, and the releases on which they run."""

from dataclasses import dataclass

# For each line the newest release whose tests are in a Maven repository.
RELEASES = {"4.1": "4.1.2", "3.5": "3.5.9"}
PLUGIN_MODES = ("merge", "remote")
# Plain Spark, with the daemon in place of the external shuffle service that the suite starts.
SERVICE = "service"
MODES = (*PLUGIN_MODES, SERVICE)


@dataclass(frozen=True)
class Suite:
    """A class of Spark's tests. `quick`: the modes in which `make test` runs it."""

    class_name: str
    quick: tuple[str, ...] = ()
    shuffles: bool = True
    modes: tuple[str, ...] = PLUGIN_MODES

    @property
    def name(self) -> str:
        return self.class_name.rsplit(".", 1)[1]


# The longest come first, so that none of them runs alone at the end.
SUITES = [
    Suite("org.apache.spark.sql.execution.adaptive.AdaptiveQueryExecSuite"),
    Suite("org.apache.spark.sql.SQLQuerySuite"),
    Suite("org.apache.spark.sql.DatasetSuite"),
    Suite("org.apache.spark.SortShuffleSuite"),
    Suite("org.apache.spark.ExternalShuffleServiceSuite", modes=(SERVICE,)),
    Suite("org.apache.spark.sql.JoinSuite"),
    Suite("org.apache.spark.scheduler.BarrierTaskContextSuite", shuffles=False),
    Suite("org.apache.spark.sql.DataFrameAggregateSuite"),
    Suite("org.apache.spark.sql.streaming.StreamingInnerJoinSuite"),
    Suite("org.apache.spark.sql.streaming.StreamingOuterJoinSuite"),
    Suite("org.apache.spark.sql.streaming.StreamingAggregationSuite"),
    Suite("org.apache.spark.DistributedSuite"),
    Suite("org.apache.spark.sql.DataFrameWindowFunctionsSuite"),
    Suite("org.apache.spark.sql.execution.joins.OuterJoinSuite"),
    Suite("org.apache.spark.rdd.RDDSuite"),
    Suite("org.apache.spark.rdd.PairRDDFunctionsSuite", quick=("remote",)),
    Suite("org.apache.spark.CheckpointSuite"),
    Suite("org.apache.spark.sql.execution.CoalesceShufflePartitionsSuite"),
    Suite("org.apache.spark.sql.execution.ExchangeSuite", quick=("remote",)),
    Suite("org.apache.spark.rdd.SortingSuite", quick=("merge",)),
]
