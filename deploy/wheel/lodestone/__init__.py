# SPDX-License-Identifier: Apache-2.0
"""Lodestone for PySpark: `lodestone.configure(builder)` switches it on for a session."""

from .session import configure

__all__ = ["configure"]
