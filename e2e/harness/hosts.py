# SPDX-License-Identifier: Apache-2.0
"""Hosts: addresses of loopback, which are one host for the kernel, or networks of their own, which
are separate hosts."""

import itertools
import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

# Invisible from outside: the bridge that joins them is in a network of its own too.
SUBNET = "10.213.77"
_numbers = itertools.count()


@dataclass(frozen=True)
class Host:
    """A host for processes: its address, and the words before the command of a process."""

    address: str = "127.0.0.1"
    enter: tuple[str, ...] = ()


LOOPBACK = Host()


@contextmanager
def separate_hosts(count: int, rate: str = "") -> Iterator[list[Host]]:
    """Creates hosts that reach each other by a bridge, and nothing else. Needs root. The first one
    has the bridge, and comes in addition to `count`. `rate`: the most that each of the others sends
    and receives, as `1gbit`."""
    with ExitStack() as networks:
        names = [networks.enter_context(network()) for _ in range(count + 1)]
        hub = names[0]
        ip("-n", hub, "link", "add", "bridge", "type", "bridge")
        ip("-n", hub, "address", "add", f"{SUBNET}.1/24", "dev", "bridge")
        ip("-n", hub, "link", "set", "bridge", "up")
        for number, name in enumerate(names[1:], start=2):
            port = f"port{number}"
            ip("-n", hub, "link", "add", port, "type", "veth", "peer", "wire", "netns", name)
            ip("-n", hub, "link", "set", port, "master", "bridge", "up")
            ip("-n", name, "address", "add", f"{SUBNET}.{number}/24", "dev", "wire")
            ip("-n", name, "link", "set", "wire", "up")
            if rate:
                limit(hub, port, rate)
                limit(name, "wire", rate)
        yield [
            Host(f"{SUBNET}.{number}", ("ip", "netns", "exec", name))
            for number, name in enumerate(names, start=1)
        ]


@contextmanager
def network() -> Iterator[str]:
    """Creates a network that has only its own loopback."""
    name = f"lodestone-{os.getpid()}-{next(_numbers)}"
    ip("netns", "add", name)
    try:
        ip("-n", name, "link", "set", "lo", "up")
        yield name
    finally:
        ip("netns", "delete", name)


def limit(network_name: str, device: str, rate: str) -> None:
    """Limits what leaves a device. The bucket has room for a few of the largest packets."""
    bucket = ("tbf", "rate", rate, "burst", "256kb", "latency", "20ms")
    subprocess.run(
        ["tc", "-n", network_name, "qdisc", "add", "dev", device, "root", *bucket], check=True
    )


def ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True)
