# SPDX-License-Identifier: Apache-2.0
"""Every command in a block of the documentation has a test that runs it, or one like it, or is in a
list with the reason why not. Our own program is asked whether it knows each word."""

import re
import shlex
import subprocess

import pytest

from harness.certificate import certificate
from harness.daemon import parse_ready, read_line
from harness.documented import Command, commands
from harness.helm import helm
from harness.hosts import network
from harness.paths import DAEMON, ROOT
from harness.secrets import secret_file

SERVE = "lodestone serve "
# How commands begin, and the test that runs them: as they are, or with other names of hosts, paths
# and applications.
RUN = {
    "python3 -m venv ": (
        "test_a_newcomer_sees_the_first_merged_shuffle_as_the_page_to_get_started_says"
    ),
    "pip install pyspark==": (
        "test_two_commands_lead_from_python_and_java_alone_to_a_merged_shuffle"
    ),
    "pip install dist/": "test_a_newcomer_installs_one_file_and_submits_a_job_as_the_readme_says",
    "spark-submit $(lodestone conf) your-job.py": (
        "test_a_newcomer_installs_one_file_and_submits_a_job_as_the_readme_says"
    ),
    'spark-submit --master "local[2]" $(lodestone conf --mode merge) ': (
        "test_a_newcomer_sees_the_first_merged_shuffle_as_the_page_to_get_started_says"
    ),
    'grep "lodestone: " ': (
        "test_a_newcomer_sees_the_first_merged_shuffle_as_the_page_to_get_started_says"
    ),
    SERVE: "test_a_daemon_starts_with_each_documented_command",
    "lodestone explain app-": "test_explain_reports_an_application_after_its_end",
    "lodestone explain --event-log /logs/": (
        "test_the_tab_says_what_happened_to_each_shuffle_in_sparks_ui_and_in_the_history_server"
    ),
    "lodestone doctor --conf $SPARK_HOME/": (
        "test_a_file_of_settings_is_read_as_spark_reads_it_and_its_faults_are_found"
    ),
    "lodestone doctor $(lodestone conf) ": (
        "test_a_newcomer_without_a_file_of_settings_has_the_doctor_check_the_printed_keys"
    ),
    "lodestone doctor --services ": "test_a_drained_service_and_one_that_is_down_are_errors",
    "lodestone doctor --dir ": (
        "test_a_small_disk_in_memory_has_no_room_for_a_daemon_and_stays_empty"
    ),
    "lodestone doctor --event-log ": (
        "test_the_log_of_a_job_whose_service_died_names_the_originals_and_what_to_do"
    ),
    "lodestone plan --event-log /logs/": (
        "test_a_log_of_plain_spark_has_the_blocks_that_lodestone_then_merges"
    ),
    "lodestone plan --event-log http": (
        "test_the_tab_says_what_happened_to_each_shuffle_in_sparks_ui_and_in_the_history_server"
    ),
    "lodestone drain [": (
        "test_a_service_that_is_drained_under_a_job_ends_with_its_shuffles_and_costs_no_map_run"
    ),
    "spark-submit --conf spark.shuffle.service.enabled=true ": (
        "test_blocks_of_killed_executors_are_read_in_directories_that_a_restarted_daemon_names"
    ),
    "spark-submit --conf spark.shuffle.manager=": (
        "test_every_release_shuffles_through_services_alone"
    ),
}
# The same, for tests that only `make conformance` runs.
RUN_BY_CONFORMANCE = {
    "spark-submit --repositories file:///": (
        "test_executors_of_spark_4_merge_with_a_jar_that_spark_fetches"
    ),
    "spark-submit --master yarn ": (
        "test_with_nothing_configured_daemons_merge_below_their_containers_and_end_with_them"
    ),
    "helm install ": "test_helm_accepts_the_documented_installation",
}
NOT_RUN = {
    "make wheel": "CI makes the wheel before the tests that install it",
    "make build": "CI does this first",
    "make test": "this is what CI runs",
    "make test-jvm": "`make test` does this",
    "cargo test -p lodestone-sim": "`make test` does this, with the other crates",
    "LODESTONE_SEED=4711 cargo test ": "one run of the simulation, which `make test` runs",
    "make fmt": "it changes the sources; `make lint` checks the same",
    "make soak": "it runs until it is interrupted",
    "make planted": "it takes a quarter of an hour",
    "make bench ": "it measures for hours",
    "mvn -f client/pom.xml -pl spark-4 -am test -Dtest=LevelZeroLongSuite": "it takes half an hour",
    "mvn -f client/pom.xml -pl spark-4 test -Dtest='*WriterFaultsSuite'": "`make test` runs it",
    "systemctl enable --now lodestone": "it needs a host of its own; test_packages runs the unit",
}
KNOWN = RUN | RUN_BY_CONFORMANCE | NOT_RUN


def begins(command: Command, beginnings: dict[str, str]) -> list[str]:
    return [one for one in beginnings if (command.text + " ").startswith(one)]


def test_every_command_of_the_documentation_runs_in_a_test_or_says_why_not():
    unknown = [each for each in commands() if not begins(each, KNOWN)]
    assert unknown == [], "run it in a test, and name the test here, or the reason why not"


def test_no_test_and_no_reason_is_here_for_a_command_that_is_gone():
    used = {one for each in commands() for one in begins(each, KNOWN)}
    assert used == set(KNOWN)
    assert len(KNOWN) == len(RUN) + len(RUN_BY_CONFORMANCE) + len(NOT_RUN)
    tests = "".join(path.read_text() for path in (ROOT / "e2e" / "tests").glob("test_*.py"))
    for beginnings, is_seldom in ((RUN, False), (RUN_BY_CONFORMANCE, True)):
        for name in beginnings.values():
            before, found, _ = tests.partition(f"\ndef {name}(")
            assert found, name
            # Marks are directly above the name.
            marks = before.rsplit("\n\n", 1)[1]
            assert ("@pytest.mark.seldom" in marks) == is_seldom, f"{name} is in the other list"


OURS = [each for each in commands() if each.text.startswith("lodestone ")]


@pytest.mark.parametrize("command", OURS, ids=lambda each: f"{each.page} {each.text[10:50]}")
def test_our_program_knows_each_word_of_its_documented_commands(command):
    # Brackets are around what may be left out, and bars between what excludes each other. A wrong
    # word is found before the help is shown. What a command prints for another one is options.
    text = re.sub(r"\$\(lodestone conf\)", "--conf spark.a=1", command.text)
    text = re.sub(r"[\[\]]| \| [^\]]*", "", text).replace(" TIME", " 30m")
    words = shlex.split(text)[1:]
    said = subprocess.run([DAEMON, *words, "--help"], capture_output=True, text=True)
    assert said.returncode == 0, said.stderr


@pytest.fixture
def files(tmp_path):
    """Makes the folders and files that the commands name, below a folder of the test."""
    for name in ("disk1/lodestone", "disk2/lodestone", "data1/lodestone", "data2/lodestone"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "data").mkdir()
    settings = tmp_path / "etc" / "lodestone"
    settings.mkdir(parents=True)
    certificate(settings)
    secret_file(settings).rename(settings / "secrets")
    return tmp_path


SERVING = [each for each in commands() if each.text.startswith(SERVE)]


@pytest.mark.parametrize("command", SERVING, ids=lambda each: f"{each.page} {each.text[16:40]}")
def test_a_daemon_starts_with_each_documented_command(command, files):
    # Files below a folder, and addresses in a network that has nothing but itself.
    text = re.sub(r"(?<=[ ,])/(?=disk|data|etc)", f"{files}/", command.text)
    program, *words = shlex.split(text)
    assert program == "lodestone"
    log = files / "log"
    with network() as name, log.open("wb") as errors:
        daemon = subprocess.Popen(
            ["ip", "netns", "exec", name, DAEMON, *words],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
        try:
            ready = parse_ready(read_line(daemon, 10, log))
            port = re.search(r"--listen \S+:(\d+)", text)
            assert ready["listen"] == f"0.0.0.0:{port[1] if port else 7337}"
            assert ("admin" in ready) == ("--admin" in text)
            daemon.terminate()
            assert daemon.wait(15) == 0, log.read_text()
        finally:
            daemon.kill()
            daemon.wait()


@pytest.mark.seldom
def test_helm_accepts_the_documented_installation():
    [command] = [each for each in commands() if each.text.startswith("helm install ")]
    words = shlex.split(command.text)[2:]
    # As an installation, without a cluster.
    chart = words.index("deploy/helm/lodestone")
    words[chart] = ROOT / words[chart]
    said = helm("template", "--kube-version", "1.37.0", *words)
    assert said.returncode == 0, said.stderr
    assert "REGISTRY/lodestone:" in said.stdout
