# SPDX-License-Identifier: Apache-2.0
"""The names of pods and of headless services, in a file of the form of /etc/hosts, which pods have
in place of DNS."""

import threading
from pathlib import Path


class HostNames:
    """A file that follows the pods."""

    def __init__(self, file: Path):
        self.file = file
        self._lock = threading.Lock()
        self._names: dict[str, tuple[str, list[str]]] = {}
        file.touch()
        self._write()

    def see(self, event: str, pod: dict) -> None:
        """Takes the address of a pod, or forgets a pod that is gone."""
        uid, address = pod["metadata"]["uid"], pod.get("status", {}).get("podIP")
        with self._lock:
            before = self._names.pop(uid, None)
            after = (address, names_of(pod)) if address and event != "DELETED" else None
            if after:
                self._names[uid] = after
            if after != before:
                self._write()

    def _write(self) -> None:
        """Overwrites the file in place, because containers have mounted it."""
        lines = ["127.0.0.1 localhost"]
        lines += [f"{address} {' '.join(names)}" for address, names in self._names.values()]
        with self.file.open("r+") as file:
            file.write("\n".join(lines) + "\n")
            file.truncate()


def names_of(pod: dict) -> list[str]:
    spec, metadata = pod["spec"], pod["metadata"]
    names = [metadata["name"]]
    if "subdomain" in spec:
        service = f"{spec['subdomain']}.{metadata['namespace']}.svc"
        of_service = [service, f"{service}.cluster.local"]
        of_pod = [f"{spec['hostname']}.{name}" for name in of_service if "hostname" in spec]
        names += of_service + of_pod
    return names
