# SPDX-License-Identifier: Apache-2.0
"""Compares two answers to a query row by row, each value exactly."""

import math

# Relative. The order in which the same doubles are added up changes the 13th digit or a later one.
# A row that is lost from n changes a mean or a deviation by about 1/n of it, and groups have
# millions of rows at most.
TOLERANCE = 1e-11


def difference(expected: list[list], found: list[list], is_exact: bool) -> str:
    """Returns nothing if they are the same. `is_exact`: also to the last digit of doubles."""
    if len(expected) != len(found):
        return f"{len(found):,} rows instead of {len(expected):,}"
    for number, (wanted, row) in enumerate(zip(expected, found, strict=True), start=1):
        if not same_row(wanted, row, is_exact):
            return f"row {number:,} of {len(expected):,} is {row} instead of {wanted}"
    return ""


def same_row(wanted: list, row: list, is_exact: bool) -> bool:
    same = same_value if not is_exact else same_exactly
    return len(wanted) == len(row) and all(map(same, wanted, row))


def same_exactly(wanted, value) -> bool:
    """Returns whether values are the same: 1 is not 1.0, and NaN is the same as NaN."""
    return repr(wanted) == repr(value)


def same_value(wanted, value) -> bool:
    if isinstance(wanted, float) and isinstance(value, float):
        return math.isclose(wanted, value, rel_tol=TOLERANCE) or same_exactly(wanted, value)
    return same_exactly(wanted, value)
