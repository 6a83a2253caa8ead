# SPDX-License-Identifier: Apache-2.0
"""Progress on the terminal."""


def say(text: str) -> None:
    print(text, flush=True)


def progress(text: str) -> None:
    """Prints without an end of the line."""
    print(text, end="", flush=True)
