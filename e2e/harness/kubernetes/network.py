# SPDX-License-Identifier: Apache-2.0
"""The network of pods: each has an address of its own, which no later pod gets again."""

import itertools
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import ExitStack
from typing import TypeVar

from ..hosts import SUBNET, ip, network
from . import system

Result = TypeVar("Result")


class PodNetwork:
    """Networks on one bridge. `hub` has the bridge: the driver of a job and the API server live
    there."""

    address = f"{SUBNET}.1"

    def __init__(self) -> None:
        self._all = ExitStack()
        self._numbers = itertools.count(2)
        self._of_pods: dict[str, ExitStack] = {}
        self.hub = self._all.enter_context(network())
        ip("-n", self.hub, "link", "add", "bridge", "type", "bridge")
        ip("-n", self.hub, "address", "add", f"{self.address}/24", "dev", "bridge")
        ip("-n", self.hub, "link", "set", "bridge", "up")

    def attach(self) -> tuple[str, str]:
        """Returns the name of a new network, and its address."""
        number = next(self._numbers)
        assert number < 255, "the test starts more pods than the network has addresses"
        own = ExitStack()
        name = own.enter_context(network())
        self._of_pods[name] = own
        port, address = f"port{number}", f"{SUBNET}.{number}"
        ip("-n", self.hub, "link", "add", port, "type", "veth", "peer", "wire", "netns", name)
        ip("-n", self.hub, "link", "set", port, "master", "bridge", "up")
        ip("-n", name, "address", "add", f"{address}/24", "dev", "wire")
        ip("-n", name, "link", "set", "wire", "up")
        return name, address

    def detach(self, name: str) -> None:
        """Removes a network, with its end of the wire."""
        own = self._of_pods.pop(name, None)
        if own is not None:
            own.close()

    def close(self) -> None:
        for name in list(self._of_pods):
            self.detach(name)
        self._all.close()


def within(name: str, function: Callable[[], Result]) -> Result:
    """Runs a function in a network, and returns what it returns. A socket stays where it was
    made."""
    outcome: Future[Result] = Future()

    def run() -> None:
        try:
            system.enter_network(name)
            outcome.set_result(function())
        except BaseException as error:  # of the function: its caller gets it
            outcome.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return outcome.result()
