# SPDX-License-Identifier: Apache-2.0
"""A Kubernetes of one node, for the pods of services and of Spark's executors."""

import shutil
from contextlib import ExitStack
from pathlib import Path

from ..gates import Gates
from ..hosts import Host
from .api import PODS, Api, ApiError, path_of
from .daemonset import DaemonSet
from .images import Image
from .kubelet import Kubelet
from .names import HostNames
from .network import PodNetwork, within
from .pod import Node, Pod
from .server import ApiServer
from .statefulset import StatefulSet

GONE_TIMEOUT_S = 60


class Kubernetes:
    """`plane` makes the API server. `driver` is a host beside the pods, which knows the names of
    services as they do. Gates for jobs must be made by `gates`, for executors to reach them."""

    def __init__(self, folder: Path, images: dict[str, Image], plane=ApiServer):
        self._all = ExitStack()
        network = PodNetwork()
        self._all.callback(network.close)
        self.hub, self._address = network.hub, network.address
        try:
            folder.mkdir()
            self.plane = plane(network, folder)
            self._all.callback(self.plane.stop)
            self.api: Api = self.plane.api
            node = Node(self.api, network, images, folder, HostNames(folder / "hosts"))
            self._claims = node.claims
            self.kubelet = Kubelet(node)
            self._all.callback(self.kubelet.stop)
        except BaseException:
            self._all.close()
            raise
        names_too = 'mount --bind "$0" /etc/hosts && exec "$@"'
        enter = ("ip", "netns", "exec", network.hub, "sh", "-c", names_too, str(node.names.file))
        self.driver = Host(network.address, enter)

    def gates(self) -> Gates:
        return within(self.hub, lambda: Gates(self._address))

    @property
    def conf(self) -> dict[str, str]:
        """Returns how a job reaches the API server, beside its master."""
        if not self.api.token:
            return {}
        return {
            "spark.kubernetes.authenticate.oauthToken": self.api.token,
            "spark.kubernetes.trust.certificates": "true",
        }

    @property
    def conf_of_submissions(self) -> dict[str, str]:
        """Returns the same for a job in cluster mode."""
        if not self.api.token:
            return {}
        prefix = "spark.kubernetes.authenticate"
        keys = (f"{prefix}.submission.oauthToken", f"{prefix}.driver.oauthToken")
        return {
            **dict.fromkeys(keys, self.api.token),
            "spark.kubernetes.trust.certificates": "true",
        }

    def stop(self) -> None:
        self._all.close()

    def clear(self) -> None:
        """Removes all workloads, pods and volumes."""
        self.plane.clear()
        for pod in self.api.items(PODS):
            try:
                self.api.delete(path_of(pod), grace_s=0)
            except ApiError as error:
                if error.status != 404:  # Spark's driver, or the kubelet, has removed it meanwhile
                    raise
        self.kubelet.join()
        shutil.rmtree(self._claims, ignore_errors=True)

    def apply(self, thing: dict) -> None:
        """Creates an object of the core group."""
        folder = f"/api/v1/namespaces/{thing['metadata']['namespace']}"
        self.api.post(f"{folder}/{thing['kind'].lower()}s", thing)

    def stateful_set(self, manifest: dict) -> StatefulSet:
        return self.plane.stateful_set(self.api, self.kubelet, manifest)

    def daemon_set(self, manifest: dict) -> DaemonSet:
        return self.plane.daemon_set(self.api, self.kubelet, manifest)

    def kill(self, pod: Pod) -> None:
        """Removes a pod at once, as when its node is lost."""
        self.api.delete(pod.path, grace_s=0)
        pod.join(GONE_TIMEOUT_S)

    def pods(self, namespace: str, **labels: str) -> list[dict]:
        selector = ",".join(f"{key}={value}" for key, value in labels.items())
        return self.api.items(f"/api/v1/namespaces/{namespace}/pods", labelSelector=selector)
