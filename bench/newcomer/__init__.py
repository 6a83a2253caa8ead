# SPDX-License-Identifier: Apache-2.0
"""The time from a machine with Python and Java alone to a merged shuffle."""
