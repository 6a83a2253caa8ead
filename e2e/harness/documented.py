# SPDX-License-Identifier: Apache-2.0
"""The commands in blocks of code of the documentation, as it has them."""

import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass

from .paths import ROOT

PAGES = ["README.md", "CONTRIBUTING.md", "deploy/wheel/README.md"]
# Programs that a host of tests need not have. Others are found by their names.
PROGRAMS = {
    "lodestone", "spark-submit", "pyspark", "spark-shell", "pip", "make", "mvn", "cargo", "helm",
    "kubectl", "systemctl", "docker", "podman", "curl", "python3", "promtool",
}  # fmt: skip
SETTING = re.compile(r"[A-Z_]+=\S+ +")


@dataclass(frozen=True)
class Command:
    """One command of a page, on one line."""

    page: str
    text: str


def pages() -> list[str]:
    docs = sorted((ROOT / "docs").glob("**/*.md"))
    return PAGES + [str(path.relative_to(ROOT)) for path in docs]


def blocks(page: str) -> Iterator[tuple[str, list[str]]]:
    """Yields the language and the lines of each block of code."""
    text = (ROOT / page).read_text()
    # Every second part is within fences.
    for part in text.split("```")[1::2]:
        language, *lines = part.split("\n")
        yield language, lines[:-1]


def block(page: str, heading: str, language: str = "") -> list[str]:
    """Returns the lines of the first block of code in a language below a heading."""
    text = (ROOT / page).read_text()
    section = text.split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]
    found = [part.split("\n") for part in section.split("```")[1::2]]
    return next(lines[1:-1] for lines in found if lines[0] == language)


def joined(lines: list[str]) -> Iterator[str]:
    """Yields commands, each on one line, without comments."""
    for line in "\n".join(lines).replace("\\\n", " ").split("\n"):
        command = re.sub(r"\s+#( .*)?$", "", line)
        if command.strip() and not command.startswith("#"):
            yield " ".join(command.split())


def is_command(line: str) -> bool:
    words = SETTING.sub("", line).split()
    return bool(words) and (words[0] in PROGRAMS or shutil.which(words[0]) is not None)


def commands() -> list[Command]:
    """Returns every command in a block of code without a language, or for a shell."""
    found = []
    for page in pages():
        for language, lines in blocks(page):
            if language in ("", "sh", "bash", "shell", "console"):
                found += [Command(page, line) for line in joined(lines) if is_command(line)]
    return found
