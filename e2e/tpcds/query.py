# SPDX-License-Identifier: Apache-2.0
"""The queries of TPC-DS as Spark ships them to its own tests, changed to have one answer only.

Two things may differ between two runs that are both right: the order of rows that ORDER BY leaves
open, and the rows among these that a LIMIT lets through. A query therefore runs without the LIMIT
at its end, which would also hide rows, and all columns of its answer follow those of its ORDER BY.
Its rows can then be compared one by one.
"""

import re
import subprocess
import tempfile
import zipfile
from pathlib import Path

from harness.kept import kept
from harness.paths import ROOT

# The release that the plugin is compiled against.
SPARK = "4.1.2"
JAR = f"org.apache.spark:spark-sql_2.13:{SPARK}:jar:tests"
COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy"
IN_JAR = re.compile(r"tpcds/(q\w+\.sql)")
COUNT = 103
LIMIT = re.compile(r"\s+LIMIT\s+\d+\s*;?\s*$", re.IGNORECASE)
ORDER_BY = re.compile(r"\bORDER\s+BY\b", re.IGNORECASE)
# This function adds up doubles, in the order in which they come; nothing else in these queries
# does.
SUMS_DOUBLES = re.compile(r"\bstddev_samp\b", re.IGNORECASE)


def folder() -> Path:
    """Returns the folder with the files of all queries, fetched once."""
    return kept(ROOT / ".cache" / f"tpcds-queries-{SPARK}", fetch)


def fetch(target: Path) -> None:
    with tempfile.TemporaryDirectory() as directory:
        options = [f"-Dartifact={JAR}", f"-DoutputDirectory={directory}"]
        subprocess.run(
            ["mvn", "-q", "-B", "-Dstyle.color=never", COPY, *options], cwd=directory, check=True
        )
        (jar,) = Path(directory).glob("*.jar")
        with zipfile.ZipFile(jar) as archive:
            for name in filter(IN_JAR.fullmatch, archive.namelist()):
                (target / IN_JAR.fullmatch(name)[1]).write_bytes(archive.read(name))
    found = len(list(target.iterdir()))
    assert found == COUNT, f"{JAR} has {found} queries of TPC-DS, not {COUNT}"


def names() -> list[str]:
    """Returns `q1` to `q99`; four of them are two queries."""
    return sorted((file.stem for file in folder().glob("*.sql")), key=in_order)


def in_order(name: str) -> tuple[int, str]:
    return int(re.search(r"\d+", name)[0]), name


def text_of(name: str) -> str:
    return (folder() / f"{name}.sql").read_text(encoding="utf-8")


def is_exact(name: str) -> bool:
    """Returns false if the last digits of its doubles depend on the order in which rows come."""
    return SUMS_DOUBLES.search(text_of(name)) is None


def whole(text: str) -> str:
    """Returns a text without the LIMIT at its end."""
    return LIMIT.sub("", text.rstrip())


def in_total_order(text: str, columns: int) -> str:
    """Orders a text without LIMIT by all its columns too, after its own ORDER BY."""
    joint = "," if is_ordered(text) else "\nORDER BY"
    return f"{text}{joint} {', '.join(str(number + 1) for number in range(columns))}"


def is_ordered(text: str) -> bool:
    """Returns whether the last ORDER BY is that of the query, and not of a part in brackets."""
    depth = 0
    for bracket in re.findall(r"[()]", ORDER_BY.split(text)[-1]):
        depth += 1 if bracket == "(" else -1
        if depth < 0:
            return False
    return ORDER_BY.search(text) is not None


def prepared(spark, name: str) -> str:
    """Returns the text that runs. Here Spark only analyses the query, to count its columns."""
    name_as_queries_do(spark)
    text = whole(text_of(name))
    return in_total_order(text, len(spark.sql(text).columns))


def name_as_queries_do(spark) -> None:
    """Renames a column for query 30, which uses the name of the first specification. Needs the
    views of the tables."""
    customer = spark.table("customer")
    if "c_last_review_date" not in customer.columns:
        renamed = customer.withColumn("c_last_review_date", customer["c_last_review_date_sk"])
        renamed.createOrReplaceTempView("customer")


def rows_of(spark, prepared_text: str) -> list[list]:
    """Returns the rows in order, exactly: decimals and dates as text."""
    return [[exact(value) for value in row] for row in spark.sql(prepared_text).collect()]


def exact(value):
    """Returns a value that JSON carries without loss."""
    return value if value is None or isinstance(value, (int, float, str)) else str(value)
