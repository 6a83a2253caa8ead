# SPDX-License-Identifier: Apache-2.0
"""What `make release` writes about the files of a release."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from harness.paths import ROOT

# Only tests use this one.
NOT_FOR_USERS = "lodestone-e2e-jobs.jar"


@pytest.fixture
def release(tmp_path) -> Path:
    """Returns a folder like `dist` after `make release`, with small files in place of those that
    tests do not build."""
    built = [ROOT / "dist" / "lodestone"]
    for pattern in ("*.whl", "*.deb", "*.rpm", "jars/*.jar"):
        built += (ROOT / "dist").glob(pattern)
    maven = "maven/io/lodestone/lodestone-spark-4_2.13/0.1.0/lodestone-spark-4_2.13-0.1.0"
    for name in ("lodestone.cdx.json", "lodestone-image.tar", f"{maven}.jar", f"{maven}.pom"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    for path in built:
        copy = tmp_path / path.relative_to(ROOT / "dist")
        copy.parent.mkdir(exist_ok=True)
        shutil.copy(path, copy)
    return tmp_path


def test_the_checksums_of_a_release_are_of_each_file_for_users_and_find_one_that_changed(release):
    files = {str(path.relative_to(release)) for path in release.rglob("*") if path.is_file()}
    # Maven has checksums of its own for these.
    (release / "maven" / "maven-metadata.xml").touch()
    # The make that runs the tests is another one.
    variables = {key: value for key, value in os.environ.items() if not key.startswith("MAKE")}
    make = ["make", "-s", "-C", ROOT, "checksums", f"DIST={release}"]
    subprocess.run(make, env=variables | {"MFLAGS": ""}, check=True)
    lines = (release / "SHA256SUMS").read_text().splitlines()
    assert sorted(line.split("  ")[1] for line in lines) == sorted(
        files - {f"jars/{NOT_FOR_USERS}"}
    )
    check = ["sha256sum", "--check", "--quiet", "SHA256SUMS"]
    said = subprocess.run(check, cwd=release, capture_output=True, text=True)
    assert (said.returncode, said.stdout) == (0, "")
    [jar] = release.glob("jars/lodestone-spark-4_*.jar")
    jar.write_bytes(jar.read_bytes() + b"\0")
    said = subprocess.run(check, cwd=release, capture_output=True, text=True)
    assert (said.returncode, said.stdout) == (1, f"jars/{jar.name}: FAILED\n")
