# SPDX-License-Identifier: Apache-2.0
"""The volumes of a pod, as folders."""

import base64
import os
import re
import stat
from collections.abc import Callable
from pathlib import Path

READ = Callable[[str, str], dict]
# What a group gets, as Kubernetes gives it.
FILE_MODE, FOLDER_MODE = 0o660, stat.S_ISGID | 0o770


def make(pod: dict, folder: Path, claims: Path, read: READ) -> dict[str, Path]:
    """Returns a folder for each volume. Claims are below `claims`, and outlive the pod. `read`
    returns the object of a kind and name."""
    made = {}
    for volume in pod["spec"].get("volumes", []):
        path = folder / volume["name"]
        if "persistentVolumeClaim" in volume:
            path = claims / volume["persistentVolumeClaim"]["claimName"]
            path.mkdir(parents=True, exist_ok=True)
            give_to_group(path, pod)
        elif "hostPath" in volume:
            path = Path(volume["hostPath"]["path"])
            assert path.is_dir(), f"the node has no directory {path}"
        elif "emptyDir" in volume:
            path.mkdir(parents=True)
            path.chmod(0o777)
            give_to_group(path, pod)
        else:
            project(path, files_of(volume, pod, read), pod)
        made[volume["name"]] = path
    return made


def files_of(volume: dict, pod: dict, read: READ) -> tuple[dict[str, bytes], int]:
    """Returns files of a ConfigMap, a Secret or the pod's own fields, and their mode."""
    if "configMap" in volume:
        source = volume["configMap"]
        data = read("configmaps", source["name"]).get("data", {})
        content = {key: text.encode() for key, text in data.items()}
        return selected(content, source), source.get("defaultMode", 0o644)
    if "secret" in volume:
        source = volume["secret"]
        data = read("secrets", source["secretName"]).get("data", {})
        content = {key: base64.b64decode(text) for key, text in data.items()}
        return selected(content, source), source.get("defaultMode", 0o644)
    source = volume["downwardAPI"]
    fields = {item["path"]: item["fieldRef"]["fieldPath"] for item in source["items"]}
    content = {path: field(pod, name).encode() for path, name in fields.items()}
    return content, source.get("defaultMode", 0o644)


def selected(content: dict[str, bytes], source: dict) -> dict[str, bytes]:
    items = source.get("items")
    return {item["path"]: content[item["key"]] for item in items} if items else content


def field(pod: dict, path: str) -> str:
    """Returns a field of the pod, as `metadata.name` or `metadata.labels['a.b/c']`."""
    if found := re.fullmatch(r"metadata\.(labels|annotations)\['(.*)'\]", path):
        return pod["metadata"].get(found[1], {}).get(found[2], "")
    value = pod
    for key in path.split("."):
        value = value.get(key, "")
    return str(value)


def project(path: Path, files: tuple[dict[str, bytes], int], pod: dict) -> None:
    """Writes files as Kubernetes mounts them: links into a folder that can be replaced, in a folder
    that is for all to write, with the sticky bit."""
    content, mode = files
    group = pod["spec"].get("securityContext", {}).get("fsGroup", -1)
    first = path / "..first"
    first.mkdir(parents=True)
    (path / "..data").symlink_to("..first")
    for name, data in content.items():
        file = first / name
        file.write_bytes(data)
        file.chmod(mode)
        os.chown(file, -1, group)
        (path / name).symlink_to(f"..data/{name}")
    path.chmod(0o1777)


def give_to_group(volume: Path, pod: dict) -> None:
    """Lets the group of the pod write to the volume, and to all that is in it, unless the policy is
    to trust a volume whose root it may write to."""
    security = pod["spec"].get("securityContext", {})
    group = security.get("fsGroup")
    if group is None:
        return
    is_trusting = security.get("fsGroupChangePolicy") == "OnRootMismatch"
    status = volume.stat()
    has_mode = status.st_mode & FOLDER_MODE == FOLDER_MODE
    if is_trusting and status.st_gid == group and has_mode:
        return
    for path in [*volume.rglob("*"), volume]:
        if not path.is_symlink():
            os.chown(path, -1, group)
            path.chmod(path.stat().st_mode | (FOLDER_MODE if path.is_dir() else FILE_MODE))
