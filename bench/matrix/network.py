# SPDX-License-Identifier: Apache-2.0
"""A host for each executor, and a network between them that is as slow as a real one."""

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from harness.cluster import Cluster
from harness.hosts import Host, separate_hosts

from .sides import Setting

NAME = "network"
RATE = "1gbit"
# The room of a worker: Spark counts more than the heap of an executor.
MEMORY_FACTOR = 2


@dataclass(frozen=True)
class Hosts:
    """The driver's host, which has the ports of the others, and a host for each executor."""

    driver: Host
    executors: tuple[Host, ...]

    def cluster(self, setting: Setting, folder: Path) -> Cluster:
        """Starts a cluster with room for one application."""
        memory = f"{setting.memory_mb * MEMORY_FACTOR}m"
        return Cluster(
            setting.spark, folder, self.driver, self.executors, cores=setting.cores, memory=memory
        )

    def sent(self) -> int:
        """Returns the bytes that executors and services have sent to other hosts, heads of packets
        among them."""
        show = [*self.driver.enter, "ip", "-json", "-statistics", "link", "show", "type", "veth"]
        ports = json.loads(subprocess.run(show, check=True, capture_output=True).stdout)
        return sum(port["stats64"]["rx"]["bytes"] for port in ports)


@contextmanager
def hosts(executors: int) -> Iterator[Hosts]:
    with separate_hosts(executors, RATE) as (driver, *others):
        yield Hosts(driver, tuple(others))


def obstacle() -> str:
    """Returns why there can be no such network here."""
    return "" if os.geteuid() == 0 else "only root can create its hosts"
