# SPDX-License-Identifier: Apache-2.0
"""What `lodestone plan` predicts from a log of plain Spark, beside what Lodestone then does."""
