# SPDX-License-Identifier: Apache-2.0
"""Probes and hooks of containers."""

import http.client
import socket
from collections.abc import Callable

from .network import within

# Runs a command in the container for at most some seconds; returns its exit code, or None if it
# took longer.
Execute = Callable[[list[str], float], "int | None"]


def port_of(name: int | str, container: dict) -> int:
    """Returns the number of a port that may have a name."""
    if isinstance(name, int):
        return name
    [number] = [p["containerPort"] for p in container.get("ports", []) if p.get("name") == name]
    return number


def succeeds(
    action: dict, container: dict, hub: str, address: str, execute: Execute, timeout_s: float
) -> bool:
    """Runs the action of a probe or a hook once."""
    if "exec" in action:
        return execute(action["exec"]["command"], timeout_s) == 0
    if "httpGet" in action:
        get = action["httpGet"]
        port = port_of(get["port"], container)
        # Of a pod with the network of its node, which is the hub.
        host = get.get("host", address)
        return within(hub, lambda: is_ok(host, port, get.get("path", "/"), timeout_s))
    port = port_of(action["tcpSocket"]["port"], container)
    return within(hub, lambda: accepts(address, port, timeout_s))


def is_ok(address: str, port: int, path: str, timeout_s: float) -> bool:
    connection = http.client.HTTPConnection(address, port, timeout=timeout_s)
    try:
        connection.request("GET", path)
        return 200 <= connection.getresponse().status < 400
    except (OSError, http.client.HTTPException):
        return False  # the container does not listen, or does not answer
    finally:
        connection.close()


def accepts(address: str, port: int, timeout_s: float) -> bool:
    try:
        with socket.create_connection((address, port), timeout_s):
            return True
    except OSError:
        return False  # the container does not listen
