# SPDX-License-Identifier: Apache-2.0
"""Numbers as the terminal and the page show them."""

KB, MB = 1e3, 1e6


def count(value: int) -> str:
    return f"{value:,}"


def seconds(value: float) -> str:
    return f"{value:.1f}"


def ratio(value: float) -> str:
    """Returns the text of a ratio of Lodestone to plain Spark."""
    return f"x {value:.2f}"


def size(size_bytes: float) -> str:
    if size_bytes < KB:
        return f"{size_bytes:.0f} bytes"
    return f"{size_bytes / KB:,.1f} KB" if size_bytes < MB else f"{size_bytes / MB:,.1f} MB"
