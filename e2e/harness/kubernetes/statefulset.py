# SPDX-License-Identifier: Apache-2.0
"""A StatefulSet: its pods come back under their names, with their volumes and other addresses."""

import copy
import itertools
import threading
from collections.abc import Callable

from ..daemon import wait_until
from .api import Api, ApiError, name_of
from .kubelet import Kubelet
from .pod import Pod

Step = Callable[[], None]
# A pod waits for what it drains, and for other processes on a busy machine.
CHANGE_TIMEOUT_S = 120


def nothing() -> None:
    """A step that is none."""


def is_ready(pod: dict) -> bool:
    conditions = pod["status"].get("conditions", [])
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


class StatefulSet:
    """With an API server that has no controllers: does itself what their controller does."""

    def __init__(self, api: Api, kubelet: Kubelet, manifest: dict):
        self.api = api
        self.kubelet = kubelet
        self.manifest = manifest
        metadata, self.spec = manifest["metadata"], manifest["spec"]
        self.name, self.namespace = metadata["name"], metadata["namespace"]
        self.folder = f"/api/v1/namespaces/{self.namespace}/pods"
        self._updates = itertools.count()

    def start(self) -> list[Pod]:
        """Returns the pods when they are ready."""
        for number in range(self.spec["replicas"]):
            self.api.post(self.folder, self._pod(number))
        return self.ready()

    def update(self, before: Step = nothing, while_away: Step = nothing) -> list[Pod]:
        """Replaces one pod after another: the next one when the one before has been ready again for
        as long as the manifest says. Calls `before` when it is about to delete a pod, and
        `while_away` when the pod has ended."""
        for number in reversed(range(self.spec["replicas"])):
            before()
            self.replace(number, while_away)
            if number > 0:
                threading.Event().wait(self.spec.get("minReadySeconds", 0))
        return self.ready()

    def replace(self, number: int, while_away: Step = nothing) -> Pod:
        """Deletes a pod, and returns the next of this name when it is ready."""
        self._delete(number)
        while_away()
        self.api.post(self.folder, self._pod(number))
        return self.wait_ready(number)

    def end(self) -> list[Pod]:
        """Removes all pods, in good order, and returns what they were."""
        return [self._delete(number) for number in range(self.spec["replicas"])]

    def ready(self) -> list[Pod]:
        return [self.wait_ready(number) for number in range(self.spec["replicas"])]

    def wait_ready(self, number: int, other_than: Pod | None = None) -> Pod:
        """Waits until a pod is ready that is not the named one."""
        path = self.path(number)

        def ready() -> bool:
            thing = self.find(path)
            if thing is None or (other_than and thing["metadata"]["uid"] == other_than.uid):
                return False
            return is_ready(thing)

        wait_until(ready, f"{path} is ready", CHANGE_TIMEOUT_S)
        return self.kubelet.pod(f"{self.name}-{number}")

    def path(self, number: int) -> str:
        return f"{self.folder}/{self.name}-{number}"

    def find(self, path: str) -> dict | None:
        try:
            return self.api.get(path)
        except ApiError as error:
            if error.status != 404:
                raise
            return None

    def _delete(self, number: int) -> Pod:
        was = self.kubelet.pod(f"{self.name}-{number}")
        self.api.delete(self.path(number))
        self._join(was)
        return was

    def _join(self, pod: Pod) -> None:
        pod.join(CHANGE_TIMEOUT_S)
        assert not pod.is_alive(), f"{pod.name} does not end"

    def _pod(self, number: int) -> dict:
        """Returns a pod as the controller makes it: its names, and a claim for each volume."""
        name = f"{self.name}-{number}"
        template = copy.deepcopy(self.spec["template"])
        claims = [name_of(claim) for claim in self.spec.get("volumeClaimTemplates", [])]
        volumes = [
            {"name": claim, "persistentVolumeClaim": {"claimName": f"{claim}-{name}"}}
            for claim in claims
        ]
        spec = template["spec"] | {"hostname": name, "subdomain": self.spec["serviceName"]}
        spec["volumes"] = [*spec.get("volumes", []), *volumes]
        labels = template["metadata"].get("labels", {})
        metadata = {"name": name, "namespace": self.namespace, "labels": labels}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


class ControlledStatefulSet(StatefulSet):
    """With Kubernetes' own controller."""

    @property
    def _path(self) -> str:
        return f"/apis/apps/v1/namespaces/{self.namespace}/statefulsets"

    def start(self) -> list[Pod]:
        self.api.post(self._path, self.manifest)
        return self.ready()

    def update(self, before: Step = nothing, while_away: Step = nothing) -> list[Pod]:
        """The controller decides when it deletes pods, and waits for nobody before any but the
        first."""
        old = self.ready()
        before()
        # Another template each time: without a change there is no update.
        changed = {"example/update": str(next(self._updates))}
        template = {"metadata": {"annotations": changed}}
        self.api.patch(f"{self._path}/{self.name}", {"spec": {"template": template}})
        after = []
        for number, pod in reversed(list(enumerate(old))):
            self._join(pod)
            while_away()
            after.insert(0, self.wait_ready(number, other_than=pod))
        return after

    def replace(self, number: int, while_away: Step = nothing) -> Pod:
        was = self._delete(number)
        while_away()
        return self.wait_ready(number, other_than=was)

    def end(self) -> list[Pod]:
        before = self.ready()
        self.api.patch(f"{self._path}/{self.name}", {"spec": {"replicas": 0}})
        for pod in before:
            self._join(pod)
        self.api.delete(f"{self._path}/{self.name}")
        return before
