# SPDX-License-Identifier: Apache-2.0
"""Real jobs in all modes, while services, executors and disks are killed, frozen, filled and
damaged around them."""
