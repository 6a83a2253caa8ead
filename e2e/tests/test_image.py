# SPDX-License-Identifier: Apache-2.0
"""The container image: the same bytes from the same daemon, and nothing in it but the daemon."""

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile

import oci_layout
import pytest

from harness.kubernetes.images import blob, read, read_blob, unpacked
from harness.paths import DAEMON, ROOT

SCRIPT = ROOT / "deploy" / "oci_layout.py"


@pytest.fixture(scope="module")
def image(tmp_path_factory):
    path = tmp_path_factory.mktemp("image") / "image.tar"
    subprocess.run([sys.executable, SCRIPT, DAEMON, path], check=True)
    return path


def test_who_builds_the_image_when_and_where_changes_no_byte_of_it(image, tmp_path):
    other_daemon, other_image = tmp_path / "copy", tmp_path / "other.tar"
    shutil.copyfile(DAEMON, other_daemon)
    os.utime(other_daemon, (1, 1))
    environment = {**os.environ, "TZ": "Asia/Tokyo", "LC_ALL": "C", "PYTHONHASHSEED": "7"}
    command = [sys.executable, SCRIPT, other_daemon, other_image]
    subprocess.run(command, env=environment, cwd=tmp_path, umask=0o077, check=True)
    assert other_image.read_bytes() == image.read_bytes()


def test_registries_and_runtimes_find_each_blob_by_its_digest_and_size(image):
    with tarfile.open(image) as archive:
        assert read(archive, "oci-layout") == {"imageLayoutVersion": "1.0.0"}
        [named] = read(archive, "index.json")["manifests"]
        manifest = read_blob(archive, named)
        blobs = [named, manifest["config"], *manifest["layers"]]
        for descriptor in blobs:
            content = blob(archive, descriptor)
            assert len(content) == descriptor["size"]
            assert f"sha256:{hashlib.sha256(content).hexdigest()}" == descriptor["digest"]
        config = read_blob(archive, manifest["config"])
        # The layer is not compressed, so both digests are of the same bytes.
        assert config["rootfs"]["diff_ids"] == [layer["digest"] for layer in manifest["layers"]]
        assert len([member for member in archive if member.isfile()]) == len(blobs) + 2


def test_a_container_runs_as_a_numeric_user_who_is_neither_root_nor_nobody(image):
    config = config_of(image)["config"]
    # Kubernetes refuses `runAsNonRoot` with a name, and `lodestone drain` the user 65534.
    assert config["User"] == f"{oci_layout.USER}:{oci_layout.USER}"
    assert config["Entrypoint"] == ["/lodestone"]
    assert config["Labels"]["org.opencontainers.image.version"] == oci_layout.version()


def test_the_image_names_the_cpu_of_its_program_and_nodes_with_others_refuse_it(image):
    assert config_of(image)["architecture"] == "amd64"
    program = bytearray(DAEMON.read_bytes())
    program[18] = 183  # as the header of an ELF program for 64-bit ARM has it
    assert oci_layout.architecture(bytes(program)) == "arm64"
    program[18] = 8
    with pytest.raises(SystemExit, match="amd64.*arm64"):
        oci_layout.architecture(bytes(program))


def config_of(image) -> dict:
    with tarfile.open(image) as archive:
        manifest = read_blob(archive, read(archive, "index.json")["manifests"][0])
        return read_blob(archive, manifest["config"])


def test_the_program_in_the_image_is_the_daemon_and_runs_without_another_file(image, tmp_path):
    unpacked(image, tmp_path / "root")
    held = sorted(path.name for path in (tmp_path / "root").iterdir())
    assert held == ["data", "licences", "lodestone"]
    assert (tmp_path / "root" / "lodestone").read_bytes() == DAEMON.read_bytes()
    data = (tmp_path / "root" / "data").stat()
    assert (data.st_uid, data.st_mode & 0o777) == (oci_layout.USER, 0o700)
    user = f"--userspec={oci_layout.USER}:{oci_layout.USER}"
    command = ["chroot", user, tmp_path / "root", "/lodestone", "--version"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert oci_layout.version() in said
