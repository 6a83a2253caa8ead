# SPDX-License-Identifier: Apache-2.0
"""Puts the daemon and the plugin jars of `dist/` into the wheel, and names the platform."""

from pathlib import Path

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

DIST = Path(__file__).resolve().parents[2] / "dist"
JARS = ("3.5_2.12", "3.5_2.13", "4_2.13")
# The program has no dynamic loader: the C library of the host does not matter, but where names of
# hosts are looked up by a service that its configuration names (nsswitch.conf).
TAG = "py3-none-manylinux2014_x86_64"
X86_64 = 62
# Segment types of ELF that a program has if it needs a dynamic loader.
INTERPRETER = 3


class Content(BuildHookInterface):
    def initialize(self, version, build_data):
        files = {DIST / "lodestone": "lodestone/bin/lodestone"}
        for jar in (f"lodestone-spark-{name}.jar" for name in JARS):
            files[DIST / "jars" / jar] = f"lodestone/jars/{jar}"
        missing = [str(path) for path in files if not path.is_file()]
        if missing:
            raise SystemExit(f"{', '.join(missing)}: not built; run `make build`")
        check_program((DIST / "lodestone").read_bytes())
        build_data["force_include"].update({str(path): name for path, name in files.items()})
        build_data["pure_python"] = False
        build_data["tag"] = TAG


def check_program(program: bytes) -> None:
    """Fails unless the tag is true: a program for this CPU that loads no library."""
    machine = int.from_bytes(program[18:20], "little")
    offset = int.from_bytes(program[32:40], "little")
    size, count = (int.from_bytes(program[at : at + 2], "little") for at in (54, 56))
    headers = [offset + size * index for index in range(count)]
    types = {int.from_bytes(program[at : at + 4], "little") for at in headers}
    if program[:4] != b"\x7fELF" or machine != X86_64 or INTERPRETER in types:
        raise SystemExit(
            f"dist/lodestone is no static program for x86_64, as {TAG} says; run `make daemon`"
        )
