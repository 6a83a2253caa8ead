# SPDX-License-Identifier: Apache-2.0
"""Kubernetes on one machine: pods are processes with a network, mounts and process ids of their
own. Needs root."""
