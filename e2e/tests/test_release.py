# SPDX-License-Identifier: Apache-2.0
"""What `make release` writes about the files of a release."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from harness.crates import crates_in_the_daemon
from harness.paths import ROOT

OF_MAKE = ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")
FOR_USERS = (
    "lodestone-spark-3.5_2.12.jar",
    "lodestone-spark-3.5_2.13.jar",
    "lodestone-spark-4_2.13.jar",
    "lodestone-comet-0.12-spark-3.5_2.12.jar",
    "lodestone-comet-1.2-spark-4.1_2.13.jar",
    "lodestone-gluten-1.6-spark-3.5_2.12.jar",
    "lodestone-auron-spark-3.5_2.12.jar",
    "lodestone-yarn.jar",
)
# Only tests use this one.
NOT_FOR_USERS = "lodestone-e2e-jobs.jar"
OPTIONAL_MAX = 10


@pytest.fixture
def release(tmp_path) -> Path:
    """Returns a folder like `dist` after `make release`, with small files in place of those that
    tests do not build."""
    dist = ROOT / "dist"
    # A jar of an older build may be beside them.
    built = [dist / "lodestone", *(dist / "jars" / name for name in (*FOR_USERS, NOT_FOR_USERS))]
    for pattern in ("*.whl", "*.deb", "*.rpm"):
        built += dist.glob(pattern)
    maven = "maven/io/lodestone/lodestone-spark-4_2.13/0.1.0/lodestone-spark-4_2.13-0.1.0"
    for name in ("lodestone.cdx.json", "lodestone-image.tar", f"{maven}.jar", f"{maven}.pom"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    for path in built:
        copy = tmp_path / path.relative_to(dist)
        copy.parent.mkdir(exist_ok=True)
        shutil.copy(path, copy)
    return tmp_path


def check_files(folder: Path) -> tuple[int, str]:
    """Compares the files of a release with their checksums, as a user does."""
    command = ["sha256sum", "--check", "--quiet", "SHA256SUMS"]
    # Its words are translated.
    english = {**os.environ, "LC_ALL": "C"}
    said = subprocess.run(command, cwd=folder, env=english, capture_output=True, text=True)
    return said.returncode, said.stdout


def make(*arguments: str) -> None:
    # The make that runs the tests is another one.
    variables = {key: value for key, value in os.environ.items() if key not in OF_MAKE}
    subprocess.run(["make", "-s", "-C", ROOT, *arguments], env=variables, check=True)


def test_the_checksums_of_a_release_are_of_each_file_for_users_and_find_one_that_changed(release):
    files = {str(path.relative_to(release)) for path in release.rglob("*") if path.is_file()}
    # Maven has checksums of its own for these.
    (release / "maven" / "maven-metadata.xml").touch()
    make("checksums", f"DIST={release}")
    lines = (release / "SHA256SUMS").read_text().splitlines()
    assert sorted(line.split("  ")[1] for line in lines) == sorted(
        files - {f"jars/{NOT_FOR_USERS}"}
    )
    assert check_files(release) == (0, "")
    [jar] = release.glob("jars/lodestone-spark-4_*.jar")
    jar.write_bytes(jar.read_bytes() + b"\0")
    assert check_files(release) == (1, f"jars/{jar.name}: FAILED\n")


@pytest.mark.seldom
def test_the_list_of_a_release_has_each_crate_in_the_daemon_and_no_path_of_the_builder():
    make("sbom")
    text = (ROOT / "dist" / "lodestone.cdx.json").read_text()
    assert str(ROOT) not in text
    components = json.loads(text)["components"]
    named = {(one["name"], one["version"]) for one in components}
    ours = {one for one in named if one[0].startswith("lodestone-")}
    assert len(ours) > 1, "the crates of this repository are in the daemon too"
    inside = crates_in_the_daemon("x86_64")
    assert inside <= named
    # Cargo also names what crates of the daemon could use with other features.
    assert len(named - ours - inside) <= OPTIONAL_MAX
    lock = (ROOT / "daemon" / "Cargo.lock").read_text()
    locked = re.findall(r'^name = "(.+)"\nversion = "(.+)"$', lock, re.MULTILINE)
    assert named <= set(locked)
