# SPDX-License-Identifier: Apache-2.0
"""Small tables of TPC-H, and settings with which Spark shuffles them as it does large ones."""

from . import tables

# Tables in many small pieces.
SCALE, PIECE = "0.02", "256KB"
ADAPTIVE = {
    "spark.sql.adaptive.enabled": "true",
    # Otherwise nearly all joins of such small tables need no shuffle.
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.files.maxPartitionBytes": "256k",
    # A shuffle of such small tables has as many reduce tasks as one of usual size.
    "spark.sql.adaptive.coalescePartitions.minPartitionSize": "1k",
}


def small_tables() -> str:
    """Returns the folder with the tables, as an argument of a job."""
    return str(tables.small(SCALE, PIECE))
