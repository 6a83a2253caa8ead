# SPDX-License-Identifier: Apache-2.0
"""Spark's own test suites, on plain Spark and on Lodestone: each test must have the same
outcome."""
