# SPDX-License-Identifier: Apache-2.0
"""Real jobs in mode remote, while services and executors are killed, frozen, filled and damaged around them."""
