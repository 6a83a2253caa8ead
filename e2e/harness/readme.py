# SPDX-License-Identifier: Apache-2.0
"""The commands of README.md, as it has them."""

from .paths import ROOT


def block(heading: str, language: str = "") -> list[str]:
    """Returns the lines of the first block of code in a language below a heading."""
    text = (ROOT / "README.md").read_text()
    section = text.split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]
    # Every second part is within fences.
    blocks = [part.split("\n") for part in section.split("```")[1::2]]
    return next(lines[1:-1] for lines in blocks if lines[0] == language)
