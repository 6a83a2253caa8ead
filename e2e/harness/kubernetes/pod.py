# SPDX-License-Identifier: Apache-2.0
"""The life of one pod with one container: start, probes, restarts, end."""

import queue
import shutil
import signal
import threading
import time
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from ..daemon import wait_until
from . import probes, volumes
from .api import Api, ApiError, name_of, path_of
from .images import Image
from .names import HostNames
from .network import PodNetwork
from .process import ContainerProcess, environment_of

# Periods of probes are shorter than the pod says, so that tests are.
HASTE = 10
# What a container has at least between SIGTERM and SIGKILL, as with Kubernetes.
LEAST_GRACE_S = 2
VOLUME_TIMEOUT_S = 60
RESTART_PAUSES_S = [0.0, 0.2, 1.0, 5.0]


@dataclass
class Node:
    """What pods share."""

    api: Api
    network: PodNetwork
    images: dict[str, Image]
    folder: Path
    names: HostNames

    @property
    def claims(self) -> Path:
        return self.folder / "claims"


class Forgotten(Exception):
    """The object of the pod is gone."""


class Pod(threading.Thread):
    """Runs a pod until the API server has forgotten it."""

    def __init__(self, node: Node, pod: dict):
        super().__init__(daemon=True, name=name_of(pod))
        self._node = node
        self._pod = pod
        self.path, self.uid = path_of(pod), pod["metadata"]["uid"]
        [self._container] = pod["spec"]["containers"]
        self._events: queue.Queue[tuple[str, object]] = queue.Queue()
        self._folder = node.folder / "pods" / self.uid
        self._process: ContainerProcess | None = None
        self._restarts = 0
        self.is_ready = self._was_ready = False
        self._changed_at = now()
        self.is_ending = False
        self._is_forgotten = False
        # What happened at its end, in order: whether the hook succeeded, signals, the exit code.
        self.story: list[tuple[str, object]] = []

    # What the kubelet calls.

    def end(self, grace_s: float) -> None:
        self._events.put(("end", grace_s))

    def forget(self) -> None:
        """Ends the pod at once: its object is gone."""
        self._is_forgotten = True
        self._events.put(("forget", None))
        if self._process is not None:
            # Also in the middle of a hook, or of a grace period.
            self._process.signal(signal.SIGKILL)

    @property
    def pid(self) -> int:
        """Returns the process id of the container."""
        assert self._process is not None, f"{self.name} has not started"
        return self._process.pid

    @property
    def log(self) -> Path:
        return self._folder / "log.txt"

    # The life of the pod.

    def run(self) -> None:
        network, self.address = self._attached()
        try:
            self._prepare(network)
            self._start()
            self._live()
        except Forgotten:
            pass  # its object is gone before it has all that it waits for
        finally:
            if self._process is not None:
                self._process.kill()
            self._node.network.detach(network)
            for emptied in ("volumes", "layers"):
                shutil.rmtree(self._folder / emptied, ignore_errors=True)

    def _attached(self) -> tuple[str, str]:
        """Returns the pod's network, and its address in it."""
        network = self._node.network
        if self._pod["spec"].get("hostNetwork"):
            return network.hub, network.address
        return network.attach()

    def _prepare(self, network: str) -> None:
        self._folder.mkdir(parents=True)
        self._pod["status"] = self._pod.get("status", {}) | {"podIP": self.address}
        self._node.names.see("MODIFIED", self._pod)
        made = volumes.make(self._pod, self._folder / "volumes", self._node.claims, self._read)
        mounts = [{"source": str(self._node.names.file), "target": "/etc/hosts", "read_only": True}]
        for mount in self._container.get("volumeMounts", []):
            source = made[mount["name"]] / mount.get("subPath", "")
            target, read_only = mount["mountPath"], mount.get("readOnly", False)
            mounts.append({"source": str(source), "target": target, "read_only": read_only})
        self._network, self._mounts = network, mounts

    def _read(self, kind: str, name: str) -> dict:
        """Reads an object, and waits until it is there, as a kubelet does."""
        path = f"/api/v1/namespaces/{self._pod['metadata']['namespace']}/{kind}/{name}"
        return wait_until(lambda: self._find(path), path, VOLUME_TIMEOUT_S)

    def _find(self, path: str) -> dict | None:
        if self._is_forgotten:
            raise Forgotten(path)
        try:
            return self._node.api.get(path)
        except ApiError as error:
            if error.status != 404:
                raise
            return None

    def _start(self) -> None:
        self.is_ready = False
        self._process = ContainerProcess(
            self._pod,
            self._container,
            self._node.images[self._container["image"]],
            self._network,
            self._mounts,
            self._folder,
            environment_of(self._container, self._pod, self._read),
            lambda code: self._events.put(("exit", code)),
        )
        if self._is_forgotten:
            raise Forgotten(self.path)
        self._failures = 0
        self.is_ready = "readinessProbe" not in self._container
        self._report("Running", {"running": {"startedAt": now()}})

    def _live(self) -> None:
        """Handles what happens until the pod is to be forgotten."""
        while True:
            try:
                event, value = self._events.get(timeout=self._until_probe())
            except queue.Empty:
                self._probe()
                continue
            if event == "forget":
                return
            if event == "end":
                self._end(value)
                return
            if not self._has_restarted(value):
                self._report_end(value)

    def _has_restarted(self, code: int) -> bool:
        """Starts the container again after its end, if the pod wants that."""
        policy = self._pod["spec"].get("restartPolicy", "Always")
        if policy == "Never" or (policy == "OnFailure" and code == 0):
            return False
        pause = RESTART_PAUSES_S[min(self._restarts, len(RESTART_PAUSES_S) - 1)]
        self._restarts += 1
        try:
            event, value = self._events.get(timeout=pause) if pause else self._events.get_nowait()
        except queue.Empty:
            self._start()
        else:
            self._events.put((event, value))
        return True

    def _until_probe(self) -> float | None:
        if self._process is None or not self._process.runs():
            return None
        periods = [probe.get("periodSeconds", 10) for _, probe in self._probes()]
        return min(periods) / HASTE if periods else None

    def _probes(self) -> list[tuple[str, dict]]:
        kinds = ("readinessProbe", "livenessProbe")
        return [(kind, self._container[kind]) for kind in kinds if kind in self._container]

    def _probe(self) -> None:
        for kind, probe in self._probes():
            is_good = self._succeeds(probe, probe.get("timeoutSeconds", 1))
            if kind == "readinessProbe" and is_good != self.is_ready:
                self.is_ready = is_good
                self._report("Running", {"running": {"startedAt": now()}})
            elif kind == "livenessProbe":
                self._failures = 0 if is_good else self._failures + 1
                if self._failures >= probe.get("failureThreshold", 3):
                    self.story.append(("not alive", self._failures))
                    self._failures = 0
                    self._process.signal(signal.SIGKILL)

    def _succeeds(self, action: dict, timeout_s: float) -> bool:
        hub = self._node.network.hub
        execute = self._process.execute
        return probes.succeeds(action, self._container, hub, self.address, execute, timeout_s)

    def _end(self, grace_s: float) -> None:
        """Hook, SIGTERM, SIGKILL: each only if the container still runs."""
        deadline = time.monotonic() + grace_s
        hook = self._container.get("lifecycle", {}).get("preStop")
        if hook and self._process.runs():
            self.story.append(("hook", self._succeeds(hook, grace_s)))
        if self._process.runs():
            self.story.append(("signal", "SIGTERM"))
            self._process.signal(signal.SIGTERM)
        code = self._process.wait(max(LEAST_GRACE_S, deadline - time.monotonic()))
        if code is None:
            self.story.append(("signal", "SIGKILL"))
            self._process.kill()
            code = self._process.wait(LEAST_GRACE_S)
        self.story.append(("exit", code))
        self._report_end(code)
        try:
            self._node.api.delete(self.path, grace_s=0)
        except ApiError as error:
            if error.status != 404:
                raise

    def _report_end(self, code: int) -> None:
        self.is_ready = False
        ended = {"terminated": {"exitCode": code, "reason": "Error" if code else "Completed"}}
        self._report("Failed" if code else "Succeeded", ended)

    def _report(self, phase: str, state: dict) -> None:
        ready = "True" if self.is_ready else "False"
        if self._was_ready != self.is_ready:
            # Controllers ask how long a pod has been ready.
            self._was_ready, self._changed_at = self.is_ready, now()
        conditions = [
            {"type": kind, "status": ready, "lastTransitionTime": self._changed_at}
            for kind in ("Ready", "ContainersReady")
        ]
        status = {
            "phase": phase,
            "podIP": self.address,
            "podIPs": [{"ip": self.address}],
            "conditions": conditions,
            "containerStatuses": [
                {
                    "name": self._container["name"],
                    "image": self._container["image"],
                    "imageID": "",
                    "ready": self.is_ready,
                    "restartCount": self._restarts,
                    "state": state,
                }
            ],
        }
        try:
            self._node.api.patch(f"{self.path}/status", {"status": status})
        except ApiError as error:
            if error.status != 404:  # the pod was removed meanwhile
                raise


def now() -> str:
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
