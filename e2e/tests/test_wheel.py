# SPDX-License-Identifier: Apache-2.0
"""The Python package: one `pip install`, and Lodestone handles the shuffles of a job."""

import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from harness import jvm
from harness import newcomer as newcomers
from harness.documented import block, joined
from harness.paths import NOT_41, ROOT, SPARK_LINES, USUAL_LINES, plugin_jar, python_of, spark_home
from harness.sizes import check_documented_size
from harness.spark_process import IN_THE_DRIVER, ONE_EXECUTOR

GET_STARTED = "docs/get-started.md"
MAPS, PARTITIONS, ROWS = 4, 3, 20_000
SESSION = "from pyspark.sql import SparkSession\n"
OWN_SESSION = SESSION + "spark = SparkSession.builder.getOrCreate()\n"
JOB = f"""
import json
rows = spark.range(0, {ROWS}, 1, {MAPS}).selectExpr("id % 100 AS k", "id AS v")
answer = sum(row["sum(v)"] for row in rows.groupBy("k").sum("v").collect())
report = spark._jvm.org.apache.spark.shuffle.lodestone.LodestoneReport.json()
print("ANSWER", json.dumps([answer, json.loads(report)]))
"""
CONFIGURE = """
import lodestone
try:
    builder = lodestone.configure({builder})
except RuntimeError as error:
    print("REFUSED", error)
"""
SHORT_LIVED = " ".join(jvm.SHORT_LIVED)
SETTINGS = {
    "spark.driver.extraJavaOptions": SHORT_LIVED,
    "spark.executor.extraJavaOptions": SHORT_LIVED,
    "spark.lodestone.mode": "merge",
    "spark.master": IN_THE_DRIVER,
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": PARTITIONS,
    "spark.ui.enabled": "false",
}
on_one_line = pytest.mark.lines(*USUAL_LINES, seldom=NOT_41)


@pytest.fixture(scope="module")
def wheel() -> Path:
    [path] = (ROOT / "dist").glob("lodestone_shuffle-*.whl")
    return path


@pytest.fixture(scope="session")
def installed(tmp_path_factory):
    """Returns a folder with a virtual environment, made by the commands of the page to get started,
    in which the README's first command has run."""
    folder = tmp_path_factory.mktemp("newcomer")
    (folder / "dist").symlink_to(ROOT / "dist")
    build, *environment, install = block(GET_STARTED, "1. Build and install")
    assert (build, install) == ("make wheel", block("README.md", "Use it")[0])
    assert install.startswith("pip install dist/")
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    variables = {**os.environ, "PATH": path, "PIP_NO_INDEX": "1"}
    typed = "\n".join(["set -e", *environment, install])
    subprocess.run(typed, shell=True, cwd=folder, env=variables, check=True)
    return folder


class Newcomer:
    """A user with the package and a release of PySpark, in one Python."""

    def __init__(self, installed: Path, version: str, folder: Path):
        self.folder = folder
        self._python = installed / "venv" / "bin" / "python"
        spark_bin = python_of(version).parent
        (own,) = installed.glob("venv/lib/python3*/site-packages")
        (packages,) = spark_bin.parent.glob("lib/python3*/site-packages")
        kept = {k: v for k, v in os.environ.items() if "SPARK" not in k}
        self._variables = {
            **kept,
            "PATH": f"{self._python.parent}:{spark_bin}:{os.environ['PATH']}",
            "PYTHONPATH": f"{own}:{packages}",
            "SPARK_CONF_DIR": str(folder),
            "SPARK_LOCAL_DIRS": str(folder / "local"),
            "SPARK_LOCAL_IP": "127.0.0.1",
        }
        for key, value in SETTINGS.items():
            self.set(key, value)

    def set(self, key: str, value) -> None:
        """Sets a key for all sessions; a later value replaces an earlier one."""
        with (self.folder / "spark-defaults.conf").open("a") as defaults:
            defaults.write(f"{key}={value}\n")

    def run(self, command, **variables) -> subprocess.CompletedProcess:
        return subprocess.run(
            command,
            shell=isinstance(command, str),
            cwd=self.folder,
            env={**self._variables, **variables},
            capture_output=True,
            text=True,
            timeout=300,
        )

    def python(self, program: str, *options: str, **variables) -> subprocess.CompletedProcess:
        self.write(program)
        return self.run([self._python, *options, "your-job.py"], **variables)

    def write(self, program: str) -> None:
        (self.folder / "your-job.py").write_text(program)


@pytest.fixture
def newcomer(installed, spark, tmp_path):
    return Newcomer(installed, spark, tmp_path)


def said(outcome: subprocess.CompletedProcess, word: str) -> str:
    all_lines = (outcome.stdout + outcome.stderr).splitlines()
    lines = [line for line in all_lines if line.startswith(f"{word} ")]
    assert lines, outcome.stdout + outcome.stderr
    return lines[-1].removeprefix(f"{word} ")


def check_merged(outcome: subprocess.CompletedProcess) -> None:
    answer, report = json.loads(said(outcome, "ANSWER"))
    assert answer == sum(range(ROWS))
    assert report["totals"]["mergedBlocksRead"] == MAPS * PARTITIONS


def test_the_package_holds_the_daemon_and_a_jar_for_each_spark_and_the_licence(wheel):
    with zipfile.ZipFile(wheel) as archive:
        held = {info.filename: info for info in archive.infolist()}
        program = held["lodestone/bin/lodestone"]
        assert archive.read(program) == (ROOT / "dist" / "lodestone").read_bytes()
        assert program.external_attr >> 16 & 0o111 == 0o111
        for jar in {plugin_jar(version) for version in SPARK_LINES.values()}:
            assert archive.read(f"lodestone/jars/{jar.name}") == jar.read_bytes()
        for text in ("LICENSE", "NOTICE", "third-party.txt"):
            assert [name for name in held if name.endswith(f"licenses/{text}")]


def test_the_package_is_as_large_as_the_page_says(wheel):
    with zipfile.ZipFile(wheel) as archive:
        installed_bytes = sum(info.file_size for info in archive.infolist())
    check_documented_size(r"package\*\* takes about ([0-9]+) MB", wheel.stat().st_size)
    check_documented_size(r"about ([0-9]+) MB when it is installed", installed_bytes)


@on_one_line
def test_a_newcomer_installs_one_file_and_submits_a_job_as_the_readme_says(newcomer):
    newcomer.write(OWN_SESSION + JOB)
    newcomer.set("spark.master", ONE_EXECUTOR)
    check_merged(newcomer.run(block("README.md", "Use it")[1]))


@pytest.mark.lines(*USUAL_LINES)
def test_a_newcomer_sees_the_first_merged_shuffle_as_the_page_to_get_started_says(newcomer):
    page = GET_STARTED
    program = "\n".join(block(page, "2. Write a job", "python"))
    (newcomer.folder / "first.py").write_text(program + "\n")
    [submit] = joined(block(page, "3. Run it"))
    # The page says mode auto, as it is without settings.
    newcomer.set("spark.lodestone.mode", "auto")
    answer = said(newcomer.run(submit), "GROUPS")
    assert f"`GROUPS {answer}`" in (ROOT / page).read_text()
    [look] = block(page, "4. See what happened")
    shown = newcomer.run(look).stdout
    blocks = 20 * PARTITIONS
    assert f"1 of 1 shuffles merged, {blocks} blocks" in shown.splitlines()[-1]
    assert f"{blocks} blocks read in {PARTITIONS} chunks, 0 read from originals" in shown


def test_two_commands_lead_from_python_and_java_alone_to_a_merged_shuffle(record_property):
    with newcomers.machine() as folder:
        install, submit = (newcomers.run(folder, typed) for typed in newcomers.two_commands())
    answer = submit.stdout.strip()
    assert f"It prints `{answer}`" in (ROOT / GET_STARTED).read_text()
    # 20 maps have rows of all 1,000 keys, which are in 199 of Spark's usual 200 partitions.
    blocks = "3,980 blocks"
    sums = newcomers.sums(submit)
    assert sums.startswith(f"1 of 1 shuffles merged, {blocks} "), sums
    assert re.search(rf", {blocks} read in [0-9,]+ chunks, 0 read from originals; ", sums), sums
    for ran in (install, submit):
        record_property(ran.command, f"{ran.seconds:.1f} s")


@pytest.mark.lines(*USUAL_LINES)
def test_a_newcomer_configures_a_session_in_python_as_the_readme_says(newcomer):
    program = "\n".join(block("README.md", "Use it", "python"))
    late = CONFIGURE.format(builder="SparkSession.builder")
    outcome = newcomer.python(SESSION + program + JOB + late)
    check_merged(outcome)
    assert said(outcome, "REFUSED").startswith("a SparkContext is active")


@on_one_line
def test_a_jvm_that_runs_without_the_jar_is_noticed_before_a_session_fails(newcomer):
    newcomer.write(SESSION + CONFIGURE.format(builder="SparkSession.builder"))
    outcome = newcomer.run("spark-submit --master local your-job.py")
    assert said(outcome, "REFUSED").endswith("with `spark-submit $(lodestone conf)`")


@pytest.mark.lines(*USUAL_LINES)
def test_class_paths_and_a_serializer_that_a_user_has_set_stay(newcomer, spark):
    newcomer.set("spark.executor.extraClassPath", "/opt/theirs.jar")
    builder = "SparkSession.builder.master('yarn').config('spark.serializer', 'Mine')"
    builder += ".config('spark.driver.extraClassPath', '/opt/a.jar:/opt/b.jar')"
    line = CONFIGURE.format(builder="builder")
    result = "print('CONF', json.dumps(builder._options))"
    outcome = newcomer.python(f"import json\n{SESSION}builder = {builder}\n{line * 2}\n{result}")
    conf, jar = json.loads(said(outcome, "CONF")), plugin_jar(spark).name
    driver, executor = (
        conf[f"spark.{who}.extraClassPath"].split(":") for who in ("driver", "executor")
    )
    assert driver[:-1] == ["/opt/a.jar", "/opt/b.jar"] and driver[-1].endswith(f"/jars/{jar}")
    assert executor == ["/opt/theirs.jar", driver[-1]]
    assert conf["spark.serializer"] == "Mine"
    line = f"Lodestone is on, in mode merge, with {driver[-1]}, and the serializer stays Mine"
    assert said(outcome, "lodestone:").startswith(f"{line}; each host with executors needs the jar")


@on_one_line
def test_settings_of_the_command_line_stay_when_a_submitted_job_configures_its_session(newcomer):
    line = CONFIGURE.format(builder="SparkSession.builder")
    result = "import json\nprint('CONF', json.dumps(builder._options))"
    newcomer.write(f"{SESSION}{line}\n{result}")
    theirs = "--conf spark.serializer=Mine --conf spark.lodestone.mode=remote"
    outcome = newcomer.run(f"spark-submit $(lodestone conf) {theirs} your-job.py")
    conf = json.loads(said(outcome, "CONF"))
    assert list(conf) == ["spark.shuffle.manager"]
    assert "in mode remote" in said(outcome, "lodestone:")
    assert said(outcome, "lodestone:").endswith("the serializer stays Mine")


@on_one_line
def test_another_shuffle_manager_is_never_replaced_in_silence(newcomer):
    def asked(manager: str) -> subprocess.CompletedProcess:
        builder = f"SparkSession.builder.config('spark.shuffle.manager', '{manager}')"
        result = "import json\nprint('CONF', json.dumps(builder._options))"
        return newcomer.python(
            f"{SESSION}builder = {builder}\n{CONFIGURE.format(builder='builder')}\n{result}"
        )

    assert "org.apache.celeborn.M already" in said(asked("org.apache.celeborn.M"), "REFUSED")
    ours = "org.apache.spark.shuffle.lodestone.comet.LodestoneCometShuffleManager"
    kept = asked(ours)
    assert json.loads(said(kept, "CONF"))["spark.shuffle.manager"] == ours
    assert f"the manager stays {ours}" in said(kept, "lodestone:")


@on_one_line
def test_a_submitted_job_does_not_run_without_lodestone_when_the_keys_cannot_be_printed(newcomer):
    newcomer.write("print('RAN')")
    for wrong, said_of_it in (
        ("--spark 3.4.4", "Spark 3.4.4 is not supported"),
        ("--mode remtoe", "auto, merge, remote"),
    ):
        outcome = newcomer.run(f"spark-submit $(lodestone conf {wrong}) your-job.py")
        assert outcome.returncode != 0
        assert "RAN" not in outcome.stdout
        assert said_of_it in outcome.stderr


@pytest.mark.lines(*USUAL_LINES)
def test_a_newcomer_without_a_file_of_settings_has_the_doctor_check_the_printed_keys(
    newcomer, spark
):
    well = newcomer.run("lodestone doctor $(lodestone conf)")
    assert (well.returncode, well.stderr) == (0, ""), well.stdout
    of_jar = re.search("^ok +jar: both class paths have the jar for (.*)", well.stdout, re.M)
    # PySpark's own, which no variable names.
    judged = rf"Spark {spark} with Scala 2\.1[23] \(the Spark in {spark_home(spark).resolve()}\)"
    assert of_jar and re.fullmatch(judged, of_jar[1]), well.stdout
    assert "ok       shuffle-manager: " in well.stdout
    other = next(one for one in SPARK_LINES.values() if plugin_jar(one) != plugin_jar(spark))
    wrong = newcomer.run(f"lodestone doctor $(lodestone conf --spark {other})")
    assert wrong.returncode == 2, wrong.stdout
    [driver, executor] = re.findall(r"^error +jar: (.*)", wrong.stdout, re.MULTILINE)
    for side, line in (("driver", driver), ("executor", executor)):
        assert line.startswith(f"spark.{side}.extraClassPath has ")
        assert re.search(f", which is not for {judged} -> ", line), line
        assert f" -> Use {plugin_jar(spark).name}, as " in line


@on_one_line
def test_what_configure_cannot_do_it_says_in_a_sentence(newcomer):
    local = CONFIGURE.format(builder="SparkSession.builder.master('local')")
    mode = SESSION + local.replace("local'))", "local'), mode='fast')")
    assert "auto, merge, remote" in " ".join(newcomer.python(mode).stdout.split("\n"))
    server = SESSION + CONFIGURE.format(builder="SparkSession.builder.remote('sc://host')")
    assert "connects to a Spark server" in said(newcomer.python(server), "REFUSED")
    paths = {"PYSPARK_SUBMIT_ARGS": "--driver-class-path /opt/a.jar pyspark-shell"}
    submitted = SESSION + CONFIGURE.format(builder="SparkSession.builder")
    assert said(newcomer.python(submitted, **paths), "REFUSED").startswith("PYSPARK_SUBMIT_ARGS")
    mode = {"PYSPARK_SUBMIT_ARGS": "--jars /opt/a.jar --conf spark.lodestone.mode=remote"}
    assert "in mode remote" in said(newcomer.python(submitted, **mode), "lodestone:")
    alone = CONFIGURE.format(builder="None")
    without = newcomer.python(alone, PYTHONPATH="")
    assert said(without, "REFUSED").endswith("pip install pyspark")


@on_one_line
def test_the_command_of_the_package_is_the_daemon_and_knows_all_tested_releases(newcomer):
    help_of_drain = newcomer.run("lodestone drain --help")
    assert "--timeout" in help_of_drain.stdout, help_of_drain.stderr
    [package] = (ROOT / "dist").glob("lodestone_shuffle-*.whl")
    number = re.escape(package.name.split("-")[1])
    # As docs/deployment.md says: the commit of a release, and of other builds that they are none.
    commit = r"not a release|commit [0-9a-f]{12}"
    said_version = newcomer.run("lodestone --version").stdout
    assert re.fullmatch(rf"lodestone {number} \(({commit})\)\n", said_version), said_version
    for version in SPARK_LINES.values():
        number, _, scala = version.partition("-scala-")
        asked = f"lodestone conf --spark {number}" + (f" --scala {scala}" if scala else "")
        outcome = newcomer.run(asked)
        assert (outcome.returncode, outcome.stderr) == (0, "")
        assert f"/lodestone/jars/{plugin_jar(version).name}\n" in outcome.stdout
    refused = newcomer.run("lodestone conf --spark 3.4.4")
    assert refused.returncode == 1
    assert refused.stderr.startswith("lodestone: Spark 3.4.4 is not supported")
