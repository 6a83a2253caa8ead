# SPDX-License-Identifier: Apache-2.0
"""One jar runs on every Spark release that it claims."""

import subprocess

import pytest

from harness.jvm import SHORT_LIVED
from harness.paths import EVERY_LINE, ROOT, SPARK_LINES, plugin_jar, spark_home
from linkage.check import Classes, breaches, check, spark_jars

VERIFY_ALL = ROOT / "e2e" / "linkage" / "VerifyAll.java"
CALL_ALL = ROOT / "e2e" / "linkage" / "CallAll.java"

# The packages that Spark's own launcher opens to a driver and that a job in local mode needs.
OPENED = [
    "java.lang",
    "java.lang.invoke",
    "java.nio",
    "java.util",
    "java.util.concurrent",
    "sun.nio.ch",
]


def jars_of(line: str):
    return spark_jars(spark_home(SPARK_LINES[line]) / "jars")


@pytest.mark.parametrize("line", EVERY_LINE)
def test_every_reference_of_the_jar_into_spark_resolves(line):
    assert check(plugin_jar(line), jars_of(line)) == []


# Elsewhere the end-to-end tests run without the verifier: it would take a tenth of their time.
@pytest.mark.parametrize("line", EVERY_LINE)
def test_every_class_of_the_jar_passes_the_verifier(line):
    jar = plugin_jar(line)
    classpath = f"{jar}:{spark_home(SPARK_LINES[line])}/jars/*"
    command = ["java", *SHORT_LIVED, "-Xverify:all", "-cp", classpath, VERIFY_ALL, jar]
    verified = subprocess.run(command, capture_output=True, text=True)
    assert verified.returncode == 0, verified.stderr
    assert int(verified.stdout) == len(Classes([jar]))


# Other tests run jobs on these.
WITH_JOBS = ("3.5", "4.1")


# From 4.1 on Spark computes a checksum of a map task's rows, and puts it into the map status.
@pytest.mark.parametrize(
    "line",
    [
        pytest.param(line, marks=pytest.mark.seldom if line in WITH_JOBS else ())
        for line in EVERY_LINE
    ],
)
def test_classes_that_the_jar_looks_up_in_spark_exist_and_work(line, tmp_path):
    classpath = f"{plugin_jar(line)}:{spark_home(SPARK_LINES[line])}/jars/*"
    javac = ["javac", *(f"-J{option}" for option in SHORT_LIVED), "-proc:none"]
    subprocess.run([*javac, "-nowarn", "-cp", classpath, "-d", tmp_path, CALL_ALL], check=True)
    opened = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in OPENED]
    command = ["java", *SHORT_LIVED, *opened, "-cp", f"{tmp_path}:{classpath}", "CallAll"]
    called = subprocess.run(command, capture_output=True, text=True)
    assert called.returncode == 0, called.stderr
    has_checksums = "true" if line >= "4.1" else "false"
    assert called.stdout.splitlines() == [
        f"rows have a checksum: {has_checksums}",
        f"a map status holds it: {has_checksums}",
        "sorted: [1, 2, 3]",
    ]


def test_a_call_whose_return_type_changed_is_found(tmp_path):
    source = tmp_path / "Caller.java"
    source.write_text(
        "package org.apache.spark.shuffle.lodestone;\n"
        "class Caller {\n"
        "  void call(org.apache.spark.network.client.TransportClient client) {\n"
        "    client.send(java.nio.ByteBuffer.allocate(1));\n"
        "  }\n"
        "}\n"
    )
    all_jars = jars_of("4.1")[0].parent / "*"
    subprocess.run(["javac", "-cp", all_jars, "-d", tmp_path, source], check=True)
    jar = tmp_path / "caller.jar"
    subprocess.run(["jar", "cf", jar, "-C", tmp_path, "org"], check=True)
    assert check(jar, jars_of("4.1")) == []
    assert any("TransportClient.send" in one for one in check(jar, jars_of("4.3")))


def test_an_abstract_method_that_came_later_is_found(tmp_path):
    plugin = Classes([plugin_jar("4.3")])
    tracker = "org/apache/spark/shuffle/lodestone/executor/fetch/OriginalsTracker"
    del plugin[tracker].members[("getStaleMapIndexes", "(I)Lscala/collection/mutable/Set;")]
    assert any("getStaleMapIndexes" in one for one in breaches(plugin, Classes(jars_of("4.3"))))
