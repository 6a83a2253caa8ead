# SPDX-License-Identifier: Apache-2.0
"""Kubernetes' own API server and controllers, and etcd. They are built from the Go modules of
`e2e/control-plane` when they are first needed, which takes a quarter of an hour of one core."""

import csv
import json
import os
import subprocess
from contextlib import ExitStack
from pathlib import Path

from ..daemon import wait_until
from ..kept import kept
from ..paths import ROOT
from . import kubelet
from .api import Api, ApiError
from .daemonset import ControlledDaemonSet
from .network import PodNetwork
from .statefulset import ControlledStatefulSet

MODULE = ROOT / "e2e" / "control-plane"
VERSION = "v1.37.2"
BUILT = ROOT / ".cache" / f"kubernetes-{VERSION}"
PROGRAMS = ("go.etcd.io/etcd/server/v3", "kube-apiserver", "kube-controller-manager")
PORT = 6443
TOKEN = "of-this-test"
NAMESPACES = ("jobs", "shuffle")
START_TIMEOUT_S = 120
STOP_TIMEOUT_S = 30
# Those that the tests need.
CONTROLLERS = "statefulset-controller,daemonset-controller"
ZONE = "zone-1"


def build(folder: Path) -> None:
    packages = [f"k8s.io/kubernetes/cmd/{name}" for name in PROGRAMS[1:]]
    named = f"-s -w -X k8s.io/component-base/version.gitVersion={VERSION}"
    command = ["nice", "go", "build", "-trimpath", f"-ldflags={named}", "-o", f"{folder}/"]
    environment = {**os.environ, "CGO_ENABLED": "0"}
    subprocess.run([*command, PROGRAMS[0], *packages], cwd=MODULE, env=environment, check=True)
    # Go names a program after the last word of its path that is no version.
    (folder / "server").rename(folder / "etcd")


class ControlPlane:
    """Three processes in the hub of a network. Clients have a token."""

    stateful_set, daemon_set = ControlledStatefulSet, ControlledDaemonSet

    def __init__(self, network: PodNetwork, folder: Path):
        self._hub = network.hub
        self._folder = folder / "control-plane"
        self._folder.mkdir()
        self._programs = kept(BUILT, build)
        self._all = ExitStack()
        self.api = Api(network.hub, network.address, PORT, TOKEN)
        try:
            self._start("etcd", "--data-dir", str(self._folder / "etcd"))
            self._start_server(network.address)
            wait_until(self._is_up, "kube-apiserver is up", START_TIMEOUT_S)
            for name in NAMESPACES:
                body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
                self.api.post("/api/v1/namespaces", body)
            self._add_node()
            self._start_controllers()
        except BaseException:
            self._all.close()
            raise

    @property
    def access(self) -> Path:
        """The file with which clients reach the server."""
        return self._folder / "kubeconfig"

    def clear(self) -> None:
        """Removes what makes pods."""
        for kind in ("statefulsets", "daemonsets"):
            for thing in self.api.items(f"/apis/apps/v1/{kind}"):
                metadata = thing["metadata"]
                path = f"/apis/apps/v1/namespaces/{metadata['namespace']}/{kind}"
                self.api.delete(f"{path}/{metadata['name']}")

    def stop(self) -> None:
        self._all.close()

    def _is_up(self) -> bool:
        try:
            self.api.get("/api/v1/namespaces/default")
        except (OSError, ApiError):
            return False  # it does not listen yet, or is not ready
        return True

    def _add_node(self) -> None:
        """Adds the kubelet's node, in a zone. Pods get its label when they are bound to it."""
        labels = {"topology.kubernetes.io/zone": ZONE}
        metadata = {"name": kubelet.NAME, "labels": labels}
        self.api.post("/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": metadata})
        ready = {"conditions": [{"type": "Ready", "status": "True"}]}
        self.api.patch(f"/api/v1/nodes/{kubelet.NAME}/status", {"status": ready})

    def _start_server(self, address: str) -> None:
        tokens, key = self._folder / "tokens.csv", self._folder / "accounts.key"
        with tokens.open("w") as file:
            csv.writer(file).writerow([TOKEN, "test", "test", "system:masters"])
        subprocess.run(
            ["openssl", "genrsa", "-out", key, "2048"], check=True, stderr=subprocess.DEVNULL
        )
        self._start(
            "kube-apiserver",
            "--etcd-servers=http://127.0.0.1:2379",
            f"--bind-address={address}",
            f"--advertise-address={address}",
            f"--secure-port={PORT}",
            f"--cert-dir={self._folder / 'certificates'}",
            f"--token-auth-file={tokens}",
            "--authorization-mode=AlwaysAllow",
            "--service-cluster-ip-range=10.96.0.0/16",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={key}",
            f"--service-account-signing-key-file={key}",
            # No controller makes the accounts that the first one wants for each pod, or removes the
            # taint that the second one gives to each new node.
            "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",
        )

    def _start_controllers(self) -> None:
        server = {"server": f"https://{self.api.address}:{PORT}", "insecure-skip-tls-verify": True}
        self.access.write_text(
            json.dumps(
                {
                    "apiVersion": "v1",
                    "kind": "Config",
                    "clusters": [{"name": "test", "cluster": server}],
                    "users": [{"name": "test", "user": {"token": TOKEN}}],
                    "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
                    "current-context": "test",
                }
            )
        )
        self._start(
            "kube-controller-manager",
            f"--kubeconfig={self.access}",
            f"--controllers={CONTROLLERS}",
            "--leader-elect=false",
            "--bind-address=127.0.0.1",
            f"--cert-dir={self._folder / 'certificates'}",
        )

    def _start(self, name: str, *arguments: str) -> None:
        # Whoever kills the test kills them too.
        enter = ["setpriv", "--pdeathsig", "KILL", "ip", "netns", "exec", self._hub]
        with (self._folder / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(
                [*enter, self._programs / name, *arguments],
                cwd=self._folder, stdout=log, stderr=log,
            )  # fmt: skip
        self._all.callback(process.wait, STOP_TIMEOUT_S)
        # Nothing of it is needed, and in good order it would wait for the end of watches.
        self._all.callback(process.kill)
