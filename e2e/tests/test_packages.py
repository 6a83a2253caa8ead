# SPDX-License-Identifier: Apache-2.0
"""The packages for Debian and Fedora: what they install, and a daemon as their unit starts it."""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import zipfile
from pathlib import Path

import pytest

from harness import rpm
from harness.crates import crates_in_the_daemon
from harness.daemon import parse_ready, read_line
from harness.paths import ROOT
from harness.sizes import check_documented_size

THIRD_PARTY = ROOT / "deploy" / "licences" / "third-party.txt"
UNIT = "usr/lib/systemd/system/lodestone.service"
DEPLOYMENT = ROOT / "docs" / "deployment.md"
# Releases of systemd count exposure a little differently: tenths, from 0 to 100.
EXPOSURE_MARGIN = 2
START_TIMEOUT_S = 10
# Any user that no other test has.
USER = 7337


def unpack_deb(package: Path, folder: Path) -> None:
    subprocess.run(["dpkg-deb", "--extract", package, folder], check=True)


def script_of_deb(package: Path) -> str:
    command = ["dpkg-deb", "--info", package, "postinst"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@pytest.fixture(scope="module", autouse=True)
def usual_umask():
    """Makes folders that every user may enter, as on a usual host, whatever the umask is here."""
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.fixture(scope="module", params=["deb", "rpm"])
def package(request) -> Path:
    [path] = (ROOT / "dist").glob(f"*.{request.param}")
    return path


@pytest.fixture(scope="module")
def root(package, tmp_path_factory):
    """Returns the files of a package, below a folder."""
    folder = tmp_path_factory.mktemp(package.suffix[1:])
    folder.chmod(0o755)
    unpack = {".deb": unpack_deb, ".rpm": rpm.unpack}[package.suffix]
    unpack(package, folder)
    return folder


def test_both_packages_install_the_daemon_the_jars_the_unit_the_settings_and_the_licence(root):
    dist = ROOT / "dist"
    expected = {"usr/bin/lodestone": dist / "lodestone"}
    for jar in dist.glob("jars/lodestone-spark-*.jar"):
        expected[f"usr/share/lodestone/jars/{jar.name}"] = jar
    for name in ("lodestone.service", "lodestone.toml"):
        at = UNIT if name.endswith("service") else f"etc/lodestone/{name}"
        expected[at] = ROOT / "deploy" / "packages" / name
    expected["usr/share/doc/lodestone/copyright"] = ROOT / "LICENSE"
    expected["usr/share/doc/lodestone/third-party.txt"] = THIRD_PARTY
    monitoring = "usr/share/lodestone"
    expected[f"{monitoring}/prometheus/rules.yaml"] = ROOT / "deploy/prometheus/rules.yaml"
    expected[f"{monitoring}/grafana/lodestone.json"] = ROOT / "deploy/grafana/lodestone.json"
    for picture in (ROOT / "docs" / "pictures").glob("*.svg"):
        expected[f"usr/share/doc/lodestone/docs/pictures/{picture.name}"] = picture
    assert len(expected) == 14
    for path, source in expected.items():
        assert (root / path).read_bytes() == source.read_bytes(), path
    assert (root / "usr/bin/lodestone").stat().st_mode & 0o777 == 0o755
    assert (root / "usr/share/doc/lodestone/docs/operations.md").exists()


def test_the_text_of_licences_names_each_crate_in_the_daemon():
    crates = crates_in_the_daemon("x86_64", "aarch64")
    named = re.findall(r"^  (\S+) (\S+) \(", THIRD_PARTY.read_text(), re.MULTILINE)
    assert len(crates) > 100
    assert set(named) == crates, "run `make licences`"


def test_each_jar_for_users_has_the_licence_and_with_the_daemon_those_of_its_crates():
    for jar in (ROOT / "dist" / "jars").glob("lodestone-[!e]*.jar"):
        with zipfile.ZipFile(jar) as archive:
            held = set(archive.namelist())
            assert archive.read("META-INF/LICENSE") == (ROOT / "LICENSE").read_bytes(), jar
            assert "META-INF/NOTICE" in held, jar
            if "lodestone/linux-x86_64/lodestone" in held:
                assert archive.read("META-INF/third-party.txt") == THIRD_PARTY.read_bytes(), jar


def test_systemd_accepts_every_line_of_the_unit_and_finds_the_service_confined(root, tmp_path):
    # It looks for the program on this host.
    unit = tmp_path / "lodestone.service"
    text = (root / UNIT).read_text()
    unit.write_text(text.replace("ExecStart=/usr", f"ExecStart={root}/usr"))
    said = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True)
    assert (said.returncode, said.stderr) == (0, "")
    said_of_it = re.search(r"an exposure of about ([0-9.]+)\)", DEPLOYMENT.read_text())
    documented = round(float(said_of_it[1]) * 10)
    limit = f"--threshold={documented + EXPOSURE_MARGIN}"
    command = ["systemd-analyze", "security", "--offline=true", "--no-pager", limit, unit]
    said = subprocess.run(command, capture_output=True, text=True)
    assert said.returncode == 0, said.stdout[-400:]


def test_the_daemon_serves_with_the_installed_settings_as_the_user_of_the_unit(root):
    service = dict(
        line.split("=", 1) for line in (root / UNIT).read_text().splitlines() if "=" in line
    )
    # What the script after the installation makes.
    state = root / "var" / "lib" / service["StateDirectory"]
    state.mkdir(parents=True)
    state.chmod(int(service["StateDirectoryMode"], 8))
    shutil.chown(state, USER, USER)
    command = [*shlex.split(service["ExecStart"]), "--listen", "127.0.0.1:0"]
    command += ["--admin", "127.0.0.1:0"]
    log = root / "daemon.log"
    with log.open("wb") as errors:
        daemon = subprocess.Popen(
            ["chroot", f"--userspec={USER}:{USER}", root, *command],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            umask=int(service["UMask"], 8),
        )
    try:
        ready = parse_ready(read_line(daemon, START_TIMEOUT_S, log))
        assert ready["admin"].startswith("127.0.0.1:")
        daemon.send_signal(signal.SIGTERM)
        assert daemon.wait(START_TIMEOUT_S) == 0, log.read_text()
    finally:
        daemon.kill()
        daemon.wait()


# All that the script needs of /etc. Nothing is copied: pytest keeps the folder, and /etc of this
# host has secrets.
ETC = {
    "passwd": "root:x:0:0:root:/root:/bin/sh\n",
    "group": "root:x:0:\n",
    "shadow": "root:*:20000:0:99999:7:::\n",
    "gshadow": "root:*::\n",
    "login.defs": "UID_MIN 1000\nGID_MIN 1000\n",
    "nsswitch.conf": "passwd: files\ngroup: files\nshadow: files\ngshadow: files\n",
}
# Root in a container may lack the right to it.
OWN_MOUNTS = ["unshare", "--mount", "--net"]
# A host that only the script sees: it makes a user and a directory. The program is below /mnt,
# where this user can enter. Then the same as after an installation of a newer version.
INSTALLATION = """
set -e
for name in etc var/lib var/log run; do mount --bind {host}/$name /$name; done
mount --bind {root}/usr /mnt
ip link set lo up
sh {script} configure
stat -c '%U %G %a' /var/lib/lodestone
setpriv --reuid lodestone --regid lodestone --clear-groups \
  /mnt/bin/lodestone doctor --json --config /etc/lodestone/lodestone.toml || true
chmod 0750 /var/lib/lodestone
sh {script} configure 0.0.9
stat -c '%U %G %a' /var/lib/lodestone
"""


def test_between_the_installation_and_the_first_start_doctor_finds_no_error(
    root, package, tmp_path
):
    if subprocess.run([*OWN_MOUNTS, "true"], capture_output=True).returncode != 0:
        pytest.skip("only root with CAP_SYS_ADMIN mounts")
    host, script = tmp_path / "host", tmp_path / "after-install.sh"
    for name in ("etc", "var/lib", "var/log", "run"):
        (host / name).mkdir(parents=True)
    for name, content in ETC.items():
        (host / "etc" / name).write_text(content)
    shutil.copytree(root / "etc" / "lodestone", host / "etc" / "lodestone")
    read = {".deb": script_of_deb, ".rpm": rpm.script_after_installation}[package.suffix]
    script.write_text(read(package))
    commands = INSTALLATION.format(host=host, root=root, script=script)
    command = [*OWN_MOUNTS, "sh", "-c", commands]
    ran = subprocess.run(command, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    made, found, later = ran.stdout.splitlines()
    assert made == "lodestone lodestone 700"
    errors = [one for one in json.loads(found)["findings"] if one["level"] == "error"]
    # A machine of tests may have a full disk.
    assert [one for one in errors if one["check"] != "room"] == []
    assert '"check":"speed"' in found, "no disk is measured without a directory"
    assert later == "lodestone lodestone 750", "an upgrade changes the directory"


def test_packages_are_as_large_as_the_page_says(package):
    check_documented_size(r"\(about ([0-9]+) MB each\)", package.stat().st_size)


def test_wrong_settings_end_the_daemon_with_the_code_after_which_the_unit_stays_down(root):
    settings = root / "etc" / "lodestone" / "wrong.toml"
    settings.write_text("memroy = '1g'")
    command = ["chroot", root, "/usr/bin/lodestone", "serve"]
    command += ["--config", "/etc/lodestone/wrong.toml"]
    said = subprocess.run(command, capture_output=True, text=True)
    assert "did you mean `memory`?" in said.stderr
    assert f"RestartPreventExitStatus={said.returncode}" in (root / UNIT).read_text().splitlines()


def test_the_installed_command_names_the_installed_jars(root):
    command = ["chroot", root, "/usr/bin/lodestone", "conf", "--spark", "4.1.4"]
    said = subprocess.run(command, capture_output=True, text=True)
    jar = "/usr/share/lodestone/jars/lodestone-spark-4_2.13.jar"
    assert f"--conf spark.executor.extraClassPath={jar}\n" in said.stdout, said.stderr
