# SPDX-License-Identifier: Apache-2.0
"""The names of pods and of headless services, in a file of the form of /etc/hosts, which pods have
in place of DNS."""

import threading
from pathlib import Path

DOMAINS = ("svc", "svc.cluster.local")


class HostNames:
    """A file that follows the pods, and the services that select them."""

    def __init__(self, file: Path):
        self.file = file
        self._lock = threading.Lock()
        self._pods: dict[str, dict] = {}
        self._services: dict[str, dict] = {}
        self._lines: list[str] = []
        file.touch()
        self._write()

    def see(self, event: str, pod: dict) -> None:
        """Takes the address of a pod, or forgets a pod that is gone."""
        has_address = bool(pod.get("status", {}).get("podIP"))
        self._see(self._pods, event, pod, has_address)

    def see_service(self, event: str, service: dict) -> None:
        """Takes a headless service, which is a name of the pods that it selects."""
        spec = service.get("spec", {})
        is_headless = spec.get("clusterIP") == "None" and "selector" in spec
        self._see(self._services, event, service, is_headless)

    def _see(self, things: dict[str, dict], event: str, thing: dict, has_name: bool) -> None:
        with self._lock:
            things.pop(thing["metadata"]["uid"], None)
            if has_name and event != "DELETED":
                things[thing["metadata"]["uid"]] = thing
            self._write()

    def _write(self) -> None:
        """Overwrites the file in place, because containers have mounted it."""
        lines = ["127.0.0.1 localhost"]
        for pod in self._pods.values():
            of_services = [name for one in self._services.values() for name in selected(one, pod)]
            lines.append(" ".join([pod["status"]["podIP"], *names_of(pod), *of_services]))
        if lines != self._lines:
            self._lines = lines
            with self.file.open("r+") as file:
                file.write("\n".join(lines) + "\n")
                file.truncate()


def names_of(pod: dict) -> list[str]:
    spec, metadata = pod["spec"], pod["metadata"]
    names = [metadata["name"]]
    if "subdomain" in spec:
        of_service = in_domains(spec["subdomain"], metadata["namespace"])
        of_pod = [f"{spec['hostname']}.{name}" for name in of_service if "hostname" in spec]
        names += of_service + of_pod
    return names


def selected(service: dict, pod: dict) -> list[str]:
    """Returns the names of a service, if it selects the pod."""
    of_service, of_pod = service["metadata"], pod["metadata"]
    is_here = of_service["namespace"] == of_pod["namespace"]
    if is_here and service["spec"]["selector"].items() <= of_pod.get("labels", {}).items():
        return in_domains(of_service["name"], of_service["namespace"])
    return []


def in_domains(service: str, namespace: str) -> list[str]:
    return [f"{service}.{namespace}.{domain}" for domain in DOMAINS]
