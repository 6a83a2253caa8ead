# SPDX-License-Identifier: Apache-2.0
"""The kubelet of the only node: takes every pod that no node has, and runs it. It knows services
too, in place of DNS."""

import http.client
import threading
from collections.abc import Callable
from contextlib import suppress

from .api import PODS, SERVICES, Api, ApiError, Watch, path_of
from .pod import Node, Pod

NAME = "node-1"
STOP_TIMEOUT_S = 60


class Kubelet:
    """Watches pods and services, each in a thread of its own."""

    def __init__(self, node: Node):
        self._node = node
        self._api: Api = node.api
        self._pods: dict[str, Pod] = {}
        self._is_over = False
        self._watched: dict[str, Watch] = {}
        seen = {PODS: self._see, SERVICES: node.names.see_service}
        self._threads = [
            threading.Thread(target=self._watch, args=one, daemon=True) for one in seen.items()
        ]
        for thread in self._threads:
            thread.start()

    def pod(self, name: str) -> Pod:
        """Returns the newest pod of a name."""
        return [pod for pod in self._pods.values() if pod.name == name][-1]

    def stop(self) -> None:
        """Ends all pods. No other one starts meanwhile."""
        self._is_over = True
        for watched in list(self._watched.values()):
            watched.stop()
        for thread in self._threads:
            thread.join(STOP_TIMEOUT_S)
            assert not thread.is_alive(), "the kubelet does not end"
        for pod in list(self._pods.values()):
            pod.forget()
        self.join()

    def join(self) -> None:
        """Waits for the end of all pods that were removed."""
        for pod in list(self._pods.values()):
            pod.join(STOP_TIMEOUT_S)
            assert not pod.is_alive(), f"{pod.name} does not end"

    def _watch(self, path: str, see: Callable[[str, dict], None]) -> None:
        while not self._is_over:
            # A stopped server, or the end of one watch, ends neither the pods nor the kubelet.
            with suppress(OSError, ApiError, ValueError, http.client.HTTPException):
                listed = self._api.get(path)
                for thing in listed["items"]:
                    see("MODIFIED", thing)
                watched = self._api.watch(path, listed["metadata"]["resourceVersion"])
                self._watched[path] = watched
                if self._is_over:
                    watched.stop()
                for event, thing in watched:
                    if self._is_over or event == "ERROR":
                        break
                    see(event, thing)

    def _see(self, event: str, pod: dict) -> None:
        uid = pod["metadata"]["uid"]
        running = self._pods.get(uid)
        self._node.names.see(event, pod)
        if event == "DELETED":
            if running is not None:
                running.forget()
        elif running is not None:
            if "deletionTimestamp" in pod["metadata"] and not running.is_ending:
                running.is_ending = True
                running.end(pod["metadata"].get("deletionGracePeriodSeconds", 30))
        elif "nodeName" not in pod["spec"]:
            self._bind(pod)
        elif pod["spec"]["nodeName"] == NAME and "deletionTimestamp" not in pod["metadata"]:
            self._pods[uid] = Pod(self._node, pod)
            self._pods[uid].start()

    def _bind(self, pod: dict) -> None:
        target = {"apiVersion": "v1", "kind": "Node", "name": NAME}
        metadata = {key: pod["metadata"][key] for key in ("name", "namespace")}
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}
        try:
            self._api.post(f"{path_of(pod)}/binding", binding)
        except ApiError as error:
            if error.status not in (404, 409):  # removed, or bound, meanwhile
                raise
