# SPDX-License-Identifier: Apache-2.0
"""`make planted`: plants each of the bugs in a copy of the plugin, and prints the suite that
notices it, with the message."""

import argparse
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from harness.paths import DAEMON, ROOT
from harness.screen import say

from . import read, written
from .bug import Bug

BUGS = [*written.BUGS, *read.BUGS]
SOURCES = Path("client/spark/src/main/scala/org/apache/spark/shuffle/lodestone")
MAVEN = ["mvn", "-q", "-B", "-f", "client/pom.xml", "-Dspotless.check.skip=true"]
LONGEST_S = 1800
SEED = 4711
# Cases for each codec and kind of rows. `make test` runs half as many: too few for some bugs.
CASES = {"WriterFaultsSuite": 60, "RemoteWriterFaultsSuite": 17}
# Unused code after a bug must not be what notices the bug.
FATAL_WARNINGS = "-Xfatal-warnings"


def main() -> int:
    asked = arguments()
    # Ends as an interrupt does, so that the copy is removed.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))
    chosen = [bug for bug in BUGS if any(words in bug.what for words in asked.only)]
    missed = []
    for bug in chosen:
        for change in bug.changes:
            replaced((ROOT / SOURCES / change.file).read_text(), change.before, change.after, bug)
    if asked.check:
        return 0
    with copy_of_the_project() as copy:
        clean = tested(copy, ",".join(sorted({bug.suite for bug in chosen})))
        if clean.returncode:
            raise SystemExit(f"the suites fail without any planted bug:\n{clean.stdout[-4000:]}")
        say(f"{'s':>5}  {'suite':<26} bug, and what noticed it")
        for bug in chosen:
            found = planted(copy, bug)
            missed += [] if found.by else [bug]
            by = found.by or "NOT FOUND"
            say(f"{found.seconds:5.0f}  {bug.suite:<26} {bug.what}\n{'':34}{by}")
    say(f"{len(chosen) - len(missed)} of {len(chosen)} planted bugs are found")
    return 1 if missed else 0


@dataclass(frozen=True)
class Found:
    """The message that noticed a bug, empty if none did, and the seconds until then."""

    by: str
    seconds: float


@contextmanager
def copy_of_the_project() -> Iterator[Path]:
    """Makes a copy of the commit, in a folder of its own. It is built once; each bug then compiles
    what it changes."""
    with tempfile.TemporaryDirectory(prefix="lodestone-planted-") as folder:
        copy = Path(folder) / "project"
        subprocess.run(
            ["git", "worktree", "add", "-q", "--detach", copy, "HEAD"], cwd=ROOT, check=True
        )
        try:
            (copy / "dist").mkdir()
            shutil.copy2(DAEMON, copy / "dist")
            pom = copy / "client" / "pom.xml"
            pom.write_text(pom.read_text().replace(f"<arg>{FATAL_WARNINGS}</arg>", ""))
            subprocess.run([*MAVEN, "-pl", "spark-4", "test-compile"], cwd=copy, check=True)
            yield copy
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", copy], cwd=ROOT, check=True)


def planted(copy: Path, bug: Bug) -> Found:
    kept = {}
    for change in bug.changes:
        path = copy / SOURCES / change.file
        kept.setdefault(path, path.read_text())
        path.write_text(replaced(path.read_text(), change.before, change.after, bug))
    try:
        began = time.monotonic()
        done = tested(copy, bug.suite)
        return Found(noticed(done.stdout) if done.returncode else "", time.monotonic() - began)
    finally:
        for path, text in kept.items():
            path.write_text(text)


def tested(copy: Path, suites: str) -> subprocess.CompletedProcess:
    """Runs suites, with the same seeds each time. The tests are as they were compiled for the clean
    run."""
    command = [
        *MAVEN,
        "-pl",
        "spark-4",
        "compile",
        "surefire:test",
        f"-Dtest={suites}",
        f"-Dlodestone.writer.first={SEED}",
    ]
    if suites in CASES:
        command.append(f"-Dlodestone.writer.cases={CASES[suites]}")
    return subprocess.run(command, cwd=copy, capture_output=True, text=True, timeout=LONGEST_S)


def replaced(text: str, before: str, after: str, bug: Bug) -> str:
    if text.count(before) != 1:
        times = f"{text.count(before)} times, and not once"
        raise SystemExit(f"{bug.what}: {before!r} occurs {times}: correct e2e/planted")
    return text.replace(before, after)


def noticed(output: str) -> str:
    """Returns the message of the first test that failed."""
    # The line has the suite, the positions in the code without a blank, the kind of error unless it
    # is an assertion, and the message.
    failures = re.findall(r"^\[ERROR\] +\w+Suite\.\S+ +(?:» )?(.+)$", output, re.MULTILINE)
    if not failures:
        raise SystemExit(f"no test failed, but the build did:\n{output[-4000:]}")
    return failures[0][:200]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="planted", description=__doc__)
    parser.add_argument(
        "--only", nargs="+", default=[""], help="bugs with any of these words in their sentence"
    )
    parser.add_argument(
        "--check", action="store_true", help="only checks that each bug can still be planted"
    )
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
