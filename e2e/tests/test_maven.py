# SPDX-License-Identifier: Apache-2.0
"""The plugin from a repository of Maven: Spark fetches the jar, and no host has it before."""

import json
import subprocess
import xml.etree.ElementTree as ElementTree
import zipfile

import pytest

from harness.driver import environment
from harness.paths import NOT_41, ROOT, python_of, spark_home
from harness.spark_process import MANAGER, ONE_EXECUTOR

REPOSITORY = ROOT / "dist" / "maven"
MAPS, PARTITIONS, ROWS = 4, 3, 20_000
JOB = f"""
import json
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
rows = spark.range(0, {ROWS}, 1, {MAPS}).selectExpr("id % 100 AS k", "id AS v")
answer = sum(row["sum(v)"] for row in rows.groupBy("k").sum("v").collect())
report = spark._jvm.org.apache.spark.shuffle.lodestone.LodestoneReport.json()
print("ANSWER", json.dumps([answer, json.loads(report)]))
"""


def coordinates(artifact: str) -> str:
    [pom] = REPOSITORY.glob(f"io/lodestone/{artifact}/*/*.pom")
    return f"io.lodestone:{artifact}:{pom.parent.name}"


@pytest.mark.seldom
@pytest.mark.parametrize("kind_of_spark", ["3.5_2.12", "3.5_2.13", "4_2.13"])
def test_each_jar_has_its_sources_its_documentation_and_a_pom_that_brings_no_other_jar(
    kind_of_spark,
):
    name = f"lodestone-spark-{kind_of_spark}"
    folder = REPOSITORY / "io" / "lodestone" / name / coordinates(name).rsplit(":", 1)[1]
    files = {path.name.removeprefix(f"{name}-{folder.name}"): path for path in folder.iterdir()}
    for kind in (".jar", "-sources.jar", "-javadoc.jar", ".pom"):
        assert files[kind].stat().st_size and f"{kind}.sha1" in files
    assert files[".jar"].read_bytes() == (ROOT / "dist" / "jars" / f"{name}.jar").read_bytes()
    with zipfile.ZipFile(files["-sources.jar"]) as sources:
        assert not [entry for entry in sources.namelist() if entry.endswith("/lodestone")]
    scopes = ElementTree.parse(files[".pom"]).findall(".//{*}dependency/{*}scope")
    assert {scope.text for scope in scopes} <= {"provided", "test"}


@pytest.mark.seldom
@pytest.mark.lines("4.0", "4.1", "4.2", "4.3", seldom=NOT_41)
def test_executors_of_spark_4_merge_with_a_jar_that_spark_fetches(spark, tmp_path):
    conf = {
        "spark.shuffle.manager": MANAGER,
        "spark.lodestone.mode": "merge",
        "spark.jars.ivy": tmp_path / "ivy",
        "spark.local.dir": tmp_path,
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.shuffle.partitions": PARTITIONS,
        "spark.ui.enabled": "false",
    }
    options = [word for key, value in conf.items() for word in ("--conf", f"{key}={value}")]
    (tmp_path / "job.py").write_text(JOB)
    # Spark looks into the home of the user first, where an installed jar may be.
    variables = {"SPARK_SUBMIT_OPTS": f"-Duser.home={tmp_path}"}
    outcome = subprocess.run(
        [spark_home(spark) / "bin" / "spark-submit", "--master", ONE_EXECUTOR]
        + ["--repositories", REPOSITORY.as_uri()]
        + ["--packages", coordinates("lodestone-spark-4_2.13"), *options, "job.py"],
        cwd=tmp_path,
        env={**environment(spark), **variables, "PYSPARK_PYTHON": str(python_of(spark))},
        capture_output=True,
        text=True,
        timeout=200,
    )
    said = [line for line in outcome.stdout.splitlines() if line.startswith("ANSWER ")]
    assert said, outcome.stdout + outcome.stderr[-6000:]
    answer, report = json.loads(said[0].removeprefix("ANSWER "))
    assert answer == sum(range(ROWS))
    assert report["totals"]["mergedBlocksRead"] == MAPS * PARTITIONS
