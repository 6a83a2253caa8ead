# SPDX-License-Identifier: Apache-2.0
"""Images of containers: a folder with the file system, and what to run in it."""

import io
import json
import os
import tarfile
from dataclasses import dataclass, field
from pathlib import Path

from ..paths import spark_home

ENTRY_POINT = Path(__file__).with_name("spark.sh")


@dataclass(frozen=True)
class Image:
    """`entrypoint` comes before the arguments of a container, `command` in their place if it has
    none. `user` is a number, root if it is None."""

    root: Path
    entrypoint: list[str]
    command: list[str] = field(default_factory=list)
    user: int | None = None
    environment: dict[str, str] = field(default_factory=dict)


def unpacked(layout: Path, folder: Path) -> Image:
    """Unpacks an image of one layer from an OCI layout in a tar file."""
    with tarfile.open(layout) as archive:
        manifest = read_blob(archive, read(archive, "index.json")["manifests"][0])
        config = read_blob(archive, manifest["config"])
        [layer] = manifest["layers"]
        with tarfile.open(fileobj=io.BytesIO(blob(archive, layer))) as files:
            # Newer releases of Python leave owners out, unless they trust the archive.
            files.extraction_filter = lambda member, _: member
            files.extractall(folder, numeric_owner=True)
    run = config["config"]
    return Image(folder, run["Entrypoint"], run["Cmd"], int(run["User"].split(":")[0]))


def read(archive: tarfile.TarFile, name: str) -> dict:
    return json.loads(archive.extractfile(name).read())


def read_blob(archive: tarfile.TarFile, descriptor: dict) -> dict:
    return json.loads(blob(archive, descriptor))


def blob(archive: tarfile.TarFile, descriptor: dict) -> bytes:
    return archive.extractfile(f"blobs/{descriptor['digest'].replace(':', '/')}").read()


def spark_image(spark_version: str) -> Image:
    """Returns an image of Spark: this machine, with an entry point as that of Spark's image."""
    environment = {"SPARK_HOME": str(spark_home(spark_version)), "PATH": os.environ["PATH"]}
    return Image(Path("/"), [str(ENTRY_POINT)], environment=environment)
