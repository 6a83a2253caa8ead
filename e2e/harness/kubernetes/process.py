# SPDX-License-Identifier: Apache-2.0
"""The process of a container."""

import base64
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from ..paths import ROOT
from . import volumes
from .images import Image

LAUNCHER = Path(__file__).with_name("container.py")
KILL_TIMEOUT_S = 30
# Of this machine, for images that are this machine, where they are file systems of their own.
OF_THE_MACHINE = (str(ROOT), "/tmp", "/root", "/home", "/usr", "/work")


class ContainerProcess:
    """Runs a container once. `on_exit` gets its exit code, as a shell would report it."""

    def __init__(
        self,
        pod: dict,
        container: dict,
        image: Image,
        network: str,
        mounts: list[dict],
        folder: Path,
        environment: dict[str, str],
        on_exit: Callable[[int], None],
    ):
        security = pod["spec"].get("securityContext", {}) | container.get("securityContext", {})
        self._user = security.get("runAsUser", image.user)
        self._group = security.get("runAsGroup", self._user)
        self._environment = image.environment | environment
        self.log = folder / "log.txt"
        layers = folder / "layers"
        layers.mkdir(parents=True, exist_ok=True)
        words = [*container.get("command", image.entrypoint)]
        words += container.get("args", [] if "command" in container else image.command)
        reading, writing = os.pipe()
        specification = folder / "container.json"
        specification.write_text(json.dumps({
            "network": network,
            "parent": os.getpid(),
            "pipe": writing,
            "root": str(image.root),
            "layers": str(layers),
            "of_the_machine": of_the_machine() if image.root == Path("/") else [],
            "mounts": mounts,
            "hostname": pod["metadata"]["name"][-63:],
            "environment": self._environment,
            "argv": [expanded(word, self._environment) for word in words],
            "user": self._user,
            "group": self._group,
            "groups": [group for group in [security.get("fsGroup")] if group is not None],
            "read_only_root": security.get("readOnlyRootFilesystem", False),
            "no_new_privileges": not security.get("allowPrivilegeEscalation", True),
            "drops_capabilities": "ALL" in security.get("capabilities", {}).get("drop", []),
        }))  # fmt: skip
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-I", LAUNCHER, specification],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, pass_fds=[writing],
            )  # fmt: skip
        os.close(writing)
        with os.fdopen(reading) as pipe:
            self.pid = int(pipe.read() or 0)
        threading.Thread(target=self._wait, args=(on_exit,), daemon=True).start()

    def _wait(self, on_exit: Callable[[int], None]) -> None:
        on_exit(self._process.wait())

    def runs(self) -> bool:
        return self._process.poll() is None

    def wait(self, timeout_s: float) -> int | None:
        """Returns the exit code, or None if the container runs longer."""
        try:
            return self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return None

    def signal(self, number: signal.Signals) -> None:
        """Sends a signal to the first process of the container."""
        if self.runs() and self.pid:
            try:
                os.kill(self.pid, number)
            except ProcessLookupError:
                pass  # it has just ended

    def kill(self) -> None:
        self.signal(signal.SIGKILL)
        self._process.wait(KILL_TIMEOUT_S)

    def execute(self, command: list[str], timeout_s: float) -> int | None:
        """Runs a command in the container. Returns its exit code, or None if it takes longer."""
        enter = [
            "nsenter",
            "--target",
            str(self.pid),
            "--mount",
            "--net",
            "--pid",
            "--uts",
            "--ipc",
        ]
        enter += ["--root", "--wd=/"]
        if self._user is not None:
            enter += ["--setgid", str(self._group), "--setuid", str(self._user)]
        with self.log.open("ab") as log:
            entered = subprocess.Popen(
                [*enter, *command],
                env={"PATH": os.environ["PATH"], **self._environment},
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip
        try:
            return entered.wait(timeout_s)
        except subprocess.TimeoutExpired:
            entered.kill()
            entered.wait()
            return None


def of_the_machine() -> list[str]:
    """Returns folders that the file system of `/` does not contain."""
    root = os.stat("/").st_dev
    return [path for path in OF_THE_MACHINE if os.path.isdir(path) and os.stat(path).st_dev != root]


def environment_of(container: dict, pod: dict, read: volumes.READ) -> dict[str, str]:
    """Returns the variables that the pod gives to a container."""
    environment: dict[str, str] = {}
    for variable in container.get("env", []):
        value = variable.get("value")
        source = variable.get("valueFrom", {})
        if "fieldRef" in source:
            value = volumes.field(pod, source["fieldRef"]["fieldPath"])
        elif "configMapKeyRef" in source:
            reference = source["configMapKeyRef"]
            value = read("configmaps", reference["name"])["data"][reference["key"]]
        elif "secretKeyRef" in source:
            reference = source["secretKeyRef"]
            encoded = read("secrets", reference["name"])["data"][reference["key"]]
            value = base64.b64decode(encoded).decode()
        if value is not None:
            environment[variable["name"]] = expanded(value, environment)
    return environment


def expanded(text: str, environment: dict[str, str]) -> str:
    """Replaces `$(NAME)`, as Kubernetes does."""
    return re.sub(r"\$\((\w+)\)", lambda found: environment.get(found[1], found[0]), text)
