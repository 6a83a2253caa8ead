# SPDX-License-Identifier: Apache-2.0
"""The crates of others in the daemon, as cargo resolves them."""

import subprocess

from .paths import ROOT


def crates_in_the_daemon(*cpus: str) -> set[tuple[str, str]]:
    """Returns names and versions, for these kinds of CPU."""
    command = ["cargo", "tree", "-q", "-p", "lodestone-server", "-e", "normal", "--prefix", "none"]
    command += [f"--target={cpu}-unknown-linux-gnu" for cpu in cpus]
    command += ["--format={p}", "--locked", "--offline"]
    tree = subprocess.run(
        command, cwd=ROOT / "daemon", check=True, capture_output=True, text=True
    ).stdout
    # Lines are `name v1.2.3`, with the path of our own crates, or a remark, behind it.
    lines = [line.split() for line in tree.splitlines() if line and "(/" not in line]
    return {(name, version.removeprefix("v")) for name, version, *_ in lines}
