# SPDX-License-Identifier: Apache-2.0
"""What people see while something takes its time."""


def say(text: str) -> None:
    print(text, flush=True)


def progress(text: str) -> None:
    """Grows the line."""
    print(text, end="", flush=True)
