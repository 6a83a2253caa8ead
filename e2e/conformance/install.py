# SPDX-License-Identifier: Apache-2.0
"""Fetches and builds once, through Maven, everything that a suite needs. Later runs are offline."""

import os
import subprocess
import zipfile
from dataclasses import dataclass
from pathlib import Path

from harness.paths import ROOT, plugin_jar

HERE = ROOT / "e2e" / "conformance"
AGENT = HERE / "agent" / "target" / "lodestone-conformance-agent.jar"
CACHE = ROOT / ".cache" / "conformance"


@dataclass(frozen=True)
class Installed:
    """A release of Spark with its tests."""

    release: str
    folder: Path
    # Directories with the classes and files of the tests, and all jars.
    classpath: list[Path]

    @property
    def scala(self) -> str:
        return "2.12" if self.release.startswith("3.5") else "2.13"


def install(release: str) -> Installed:
    folder = CACHE / release
    folder.mkdir(parents=True, exist_ok=True)
    resolved = [Path(one) for one in _resolved(release, folder).split(os.pathsep)]
    tests = [jar for jar in resolved if jar.name.endswith("-tests.jar")]
    rest = [jar for jar in resolved if jar not in tests]
    unpacked = [_unpacked(jar, folder) for jar in tests]
    return Installed(release, folder, [*unpacked, *rest, plugin_jar(release), AGENT])


def build_agent() -> None:
    sources = [*HERE.glob("agent/src/**/*.java"), HERE / "agent" / "pom.xml"]
    if not AGENT.exists() or AGENT.stat().st_mtime < max(s.stat().st_mtime for s in sources):
        _maven("-f", HERE / "agent" / "pom.xml", "clean", "package")


def _resolved(release: str, folder: Path) -> str:
    """Returns a class path. Maven computes it once for each state of the pom, because that takes
    half a minute."""
    pom = HERE / "classpath" / "pom.xml"
    answer = folder / "classpath.txt"
    if answer.exists() and answer.stat().st_mtime > pom.stat().st_mtime:
        known = answer.read_text()
        if all(Path(one).exists() for one in known.split(os.pathsep)):
            return known
    _maven("-f", pom, f"-P{release}", "dependency:build-classpath", f"-Dmdep.outputFile={answer}")
    return answer.read_text()


def _unpacked(jar: Path, folder: Path) -> Path:
    """Unpacks a jar once: suites open their files as files, which a jar does not allow."""
    target = folder / jar.stem
    done = folder / f"{jar.stem}.unpacked"
    if not done.exists():
        with zipfile.ZipFile(jar) as archive:
            archive.extractall(target)
        done.touch()
    return target


def _maven(*arguments) -> None:
    ran = subprocess.run(["mvn", "-q", "-B", *arguments], capture_output=True, text=True)
    if ran.returncode != 0:
        raise RuntimeError(f"mvn {' '.join(map(str, arguments))} failed:\n{ran.stdout[-4000:]}")
