# SPDX-License-Identifier: Apache-2.0
"""The kubelet of the only node: takes every pod that no node has, and runs it."""

import http.client
import threading
from contextlib import suppress

from .api import PODS, Api, ApiError, Watch, path_of
from .pod import Node, Pod

NAME = "node-1"
STOP_TIMEOUT_S = 60


class Kubelet:
    """Watches pods in a thread of its own."""

    def __init__(self, node: Node):
        self._node = node
        self._api: Api = node.api
        self._pods: dict[str, Pod] = {}
        self._is_over = False
        self._watched: Watch | None = None
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def pod(self, name: str) -> Pod:
        """Returns the newest pod of a name."""
        return [pod for pod in self._pods.values() if pod.name == name][-1]

    def stop(self) -> None:
        """Ends all pods. No other one starts meanwhile."""
        self._is_over = True
        if self._watched is not None:
            self._watched.stop()
        self._thread.join(STOP_TIMEOUT_S)
        assert not self._thread.is_alive(), "the kubelet does not end"
        for pod in list(self._pods.values()):
            pod.forget()
        self.join()

    def join(self) -> None:
        """Waits for the end of all pods that were removed."""
        for pod in list(self._pods.values()):
            pod.join(STOP_TIMEOUT_S)
            assert not pod.is_alive(), f"{pod.name} does not end"

    def _watch(self) -> None:
        while not self._is_over:
            # A stopped server, or the end of one watch, ends neither the pods nor the kubelet.
            with suppress(OSError, ApiError, ValueError, http.client.HTTPException):
                listed = self._api.get(PODS)
                for pod in listed["items"]:
                    self._see("MODIFIED", pod)
                self._watched = self._api.watch(PODS, listed["metadata"]["resourceVersion"])
                if self._is_over:
                    self._watched.stop()
                for event, pod in self._watched:
                    if self._is_over or event == "ERROR":
                        break
                    self._see(event, pod)

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
