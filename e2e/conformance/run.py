# SPDX-License-Identifier: Apache-2.0
"""Runs one suite, in a JVM of its own: in another one after a test that hung or ended the JVM."""

import os
import re
import shutil
import signal
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path

from harness.daemon import Daemon
from harness.jvm import SHORT_LIVED
from harness.spark_process import MANAGER

from .install import AGENT, HERE, Installed
from .outcomes import CRASHED, HUNG, MISSING, Events, Outcome, events_of
from .suites import SERVICE, Suite

# The heap that the largest of these tests needs on plain Spark.
HEAP = "2g"
# The packages that Spark opens to run on JDK 17 (JavaModuleOptions).
OPENED = (
    "lang lang.invoke lang.reflect io net nio util util.concurrent util.concurrent.atomic".split()
)
OPENED_OF_SUN = ["sun.nio.ch", "sun.nio.cs", "sun.security.action", "sun.util.calendar"]
PACKAGES = [f"java.{one}" for one in OPENED] + OPENED_OF_SUN
JVM_OPTIONS = [
    "-XX:+IgnoreUnrecognizedVMOptions",
    *[f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in PACKAGES],
    "--add-opens=java.base/jdk.internal.ref=ALL-UNNAMED",
    "-Djdk.reflect.useDirectMethodHandle=false",
    "-Dio.netty.tryReflectionSetAccessible=true",
    f"-Xmx{HEAP}", "-Xss4m",
]  # fmt: skip
# Options of the suite's JVM, and of the executors that it starts.
EVERY_JVM = " ".join(SHORT_LIVED)
# The properties of the pom of Spark's own build.
PROPERTIES = {
    "spark.testing": "1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.unsafe.exceptionOnMemoryLeak": "true",
    "spark.master.rest.enabled": "false",
    "spark.memory.debugFill": "true",
    "derby.system.durability": "test",
    "java.awt.headless": "true",
}
SUITE_LIMIT_S = 3600
# A suite is given up when this many of its JVMs have ended too soon.
MOST_JVMS = 8
FAREWELL = re.compile(
    r"lodestone: ([\d,.]+) of ([\d,.]+) shuffles merged, "
    r"(?:([\d,.]+) remote, )?(?:.*SINGLE_MAP ([\d,.]+))?"
)


@dataclass
class Ran:
    """The outcomes of a suite's tests, and the counts of its applications' shuffles."""

    outcomes: dict[str, Outcome] = field(default_factory=dict)
    aborted: str | None = None
    # Whether the last JVM ended by itself.
    is_complete: bool = False
    shuffles: int = 0
    merged: int = 0
    remote: int = 0
    # Shuffles that have one map. Mode merge leaves them to Spark.
    single: int = 0
    # Blocks that the daemon sent in mode service.
    served: int = 0
    seconds: float = 0.0

    def count(self, log: Path) -> None:
        text = log.read_text(errors="replace") if log.exists() else ""
        for numbers in FAREWELL.findall(text):
            merged, shuffles, remote, single = (int(re.sub(r"\D", "", one) or 0) for one in numbers)
            self.merged += merged
            self.shuffles += shuffles
            self.remote += remote
            self.single += single


def run(suite: Suite, mode: str | None, spark: Installed, limit_s: float, tests=()) -> Ran:
    """Runs the suite, on Lodestone in a mode or, without one, on plain Spark. Each test may take
    `limit_s`. If a JVM ends too soon, the next one runs the rest of `tests`."""
    folder = spark.folder / "runs" / (mode or "plain") / suite.name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    ran, began = Ran(), time.monotonic()
    deadline = began + SUITE_LIMIT_S
    daemon = Daemon(folder / "daemon") if mode else None
    try:
        for turn in range(MOST_JVMS):
            left = [test for test in tests if test not in ran.outcomes] if turn > 0 else []
            directory = folder / f"jvm-{turn}"
            jvm = _Jvm(suite, spark, directory, _keys(mode, daemon), left)
            _take(ran, jvm.wait(limit_s, deadline))
            ran.count(directory / "driver.log")
            has_all = all(test in ran.outcomes for test in tests)
            if jvm.has_ended_well or has_all or time.monotonic() > deadline:
                break
        if daemon:
            ran.served = daemon.counts()["fetch_chunks"]
    finally:
        if daemon:
            daemon.stop()
    for test in tests:
        ran.outcomes.setdefault(test, Outcome(MISSING))
    ran.seconds = time.monotonic() - began
    return ran


def _take(ran: Ran, events: Events) -> None:
    ran.outcomes |= events.ended
    ran.aborted = ran.aborted or events.aborted
    ran.is_complete = events.is_complete


def _keys(mode: str | None, daemon: Daemon | None) -> dict[str, str]:
    if mode is None:
        return {}
    if mode == SERVICE:
        return {"conformance.service": daemon.port}
    return {
        "spark.shuffle.manager": MANAGER,
        "spark.lodestone.mode": mode,
        "spark.lodestone.services": daemon.host_port,
    }


class _Jvm:
    """A process of ScalaTest's runner, with a folder of its own."""

    def __init__(self, suite: Suite, spark: Installed, folder: Path, keys: dict, tests: list[str]):
        self._folder = folder
        (folder / "tmp").mkdir(parents=True)
        self._events = folder / "events.txt"
        self._began = time.time()
        self.has_ended_well = False
        with (folder / "output.txt").open("wb") as output:
            self._process = subprocess.Popen(
                _command(suite, spark, folder, keys, tests),
                cwd=folder, env=_environment(spark, folder), start_new_session=True,
                stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
            )  # fmt: skip

    def wait(self, limit_s: float, deadline: float) -> Events:
        """Waits until it ends, or a test has run for too long (`limit_s`), or the suite has
        (`deadline`)."""
        verdict = CRASHED
        try:
            while self._is_running():
                quiet_since = max(events_of(self._events).since, self._began)
                if time.time() > quiet_since + limit_s or time.monotonic() > deadline:
                    verdict = HUNG
                    self._dump_threads()
                    self._kill()
        finally:
            self._kill()
        events = events_of(self._events)
        self.has_ended_well = events.is_complete
        if events.running is not None:
            message = f"in {self._folder}"
            events.ended[events.running] = Outcome(verdict, message, time.time() - events.since)
        return events

    def _is_running(self) -> bool:
        try:
            self._process.wait(2)
            return False
        except subprocess.TimeoutExpired:
            return True

    def _dump_threads(self) -> None:
        with (self._folder / "threads.txt").open("wb") as dump:
            command = ["jstack", str(self._process.pid)]
            try:
                subprocess.run(command, stdout=dump, stderr=dump, timeout=60, check=False)
            except subprocess.TimeoutExpired:
                dump.write(b"the JVM did not answer within 60 s\n")

    def _kill(self) -> None:
        """Kills the JVM with its executors, which have a process group of their own together."""
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self._process.wait()


def _command(suite: Suite, spark: Installed, folder: Path, keys: dict, tests: list[str]) -> list:
    properties = PROPERTIES | {
        "java.io.tmpdir": folder / "tmp",
        "spark.test.home": folder,
        "spark.sql.warehouse.dir": folder / "warehouse",
        "log4j2.configurationFile": HERE / "log4j2.properties",
        "conformance.logs": folder,
        "conformance.outcomes": folder / "events.txt",
    }
    agent = []
    if keys:
        file = folder / "keys.properties"
        file.write_text("".join(f"{key}={value}\n" for key, value in keys.items()))
        agent = [f"-javaagent:{AGENT}={file}"]
    chosen = [word for test in tests for word in ("-t", test)]
    return [
        "java", *JVM_OPTIONS, *agent, *(f"-D{key}={value}" for key, value in properties.items()),
        "-cp", _classpath(spark), "org.scalatest.tools.Runner",
        "-R", spark.classpath[0], "-oW", "-C", "io.lodestone.conformance.Outcomes",
        "-s", suite.class_name, *chosen,
    ]  # fmt: skip


def _environment(spark: Installed, folder: Path) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("SPARK_", "PYSPARK_"))}
    return kept | {
        "SPARK_HOME": str(folder),
        "SPARK_TESTING": "1",
        "SPARK_SCALA_VERSION": spark.scala,
        "SPARK_DIST_CLASSPATH": _classpath(spark),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "JAVA_TOOL_OPTIONS": EVERY_JVM,
    }


def _classpath(spark: Installed) -> str:
    return os.pathsep.join(map(str, spark.classpath))
