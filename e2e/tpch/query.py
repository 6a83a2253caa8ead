# SPDX-License-Identifier: Apache-2.0
"""The 22 queries of TPC-H, with the parameters of the specification's validation runs. Runs inside
PySpark."""

from pathlib import Path

FOLDER = Path(__file__).parent / "queries"
NAMES = sorted(file.stem for file in FOLDER.glob("*.sql"))


def rows_of(spark, name: str) -> list[list[str]]:
    """Returns the rows of a query, exactly: decimals and dates as text, in sorted order."""
    return rows_in(frame_of(spark, name))


def frame_of(spark, name: str):
    return spark.sql((FOLDER / f"{name}.sql").read_text(encoding="utf-8"))


def rows_in(frame) -> list[list[str]]:
    return sorted([str(value) for value in row] for row in frame.collect())


def name_tables(spark, tables: str) -> None:
    """Creates a view for each table of the folder."""
    for table in sorted(Path(tables).glob("*.parquet")):
        spark.read.parquet(str(table)).createOrReplaceTempView(table.stem)
