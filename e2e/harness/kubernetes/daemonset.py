# SPDX-License-Identifier: Apache-2.0
"""A DaemonSet: the only node has one of its pods."""

import copy
import itertools
import os
from pathlib import Path

from ..daemon import wait_until
from .api import Api, name_of
from .kubelet import Kubelet
from .pod import Pod
from .statefulset import CHANGE_TIMEOUT_S, is_ready


def with_directories(manifest: dict, folder: Path) -> dict:
    """Returns the manifest with the directories of its node below a folder: those that an operator
    makes."""
    manifest = copy.deepcopy(manifest)
    spec = manifest["spec"]["template"]["spec"]
    for volume in spec["volumes"]:
        directory = folder / volume["name"]
        directory.mkdir(mode=0o700)
        os.chown(directory, spec["securityContext"]["runAsUser"], -1)
        volume["hostPath"]["path"] = str(directory)
    return manifest


class DaemonSet:
    """With an API server that has no controllers: does itself what their controller does."""

    def __init__(self, api: Api, kubelet: Kubelet, manifest: dict):
        self.api = api
        self.kubelet = kubelet
        self.manifest = manifest
        metadata = manifest["metadata"]
        self.name, self.namespace = metadata["name"], metadata["namespace"]
        self.folder = f"/api/v1/namespaces/{self.namespace}/pods"
        self._numbers = itertools.count()

    def start(self) -> Pod:
        self._create()
        return self._ready()

    def replace(self) -> Pod:
        """Deletes the pod, and returns the next one when it is ready."""
        was = self._ready()
        self.api.delete(was.path)
        was.join(CHANGE_TIMEOUT_S)
        assert not was.is_alive(), f"{was.name} does not end"
        self._create_again()
        return self._ready(other_than=was)

    def _create(self) -> None:
        template = copy.deepcopy(self.manifest["spec"]["template"])
        metadata = template["metadata"] | {
            "name": f"{self.name}-{next(self._numbers)}",
            "namespace": self.namespace,
        }
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}
        self.api.post(self.folder, pod)

    def _create_again(self) -> None:
        self._create()

    def _ready(self, other_than: Pod | None = None) -> Pod:
        """Waits for a pod that is ready and not the named one."""
        selector = self.manifest["spec"]["selector"]["matchLabels"]
        labels = ",".join(f"{key}={value}" for key, value in selector.items())

        def ready() -> dict | None:
            pods = self.api.items(self.folder, labelSelector=labels)
            news = [pod for pod in pods if not other_than or name_of(pod) != other_than.name]
            return next((pod for pod in news if is_ready(pod)), None)

        pod = wait_until(ready, f"a pod of {self.name} is ready", CHANGE_TIMEOUT_S)
        return self.kubelet.pod(name_of(pod))


class ControlledDaemonSet(DaemonSet):
    """With Kubernetes' own controller."""

    def _create(self) -> None:
        path = f"/apis/apps/v1/namespaces/{self.namespace}/daemonsets"
        self.api.post(path, self.manifest)

    def _create_again(self) -> None:
        """Leaves it to the controller."""
