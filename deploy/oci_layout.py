# SPDX-License-Identifier: Apache-2.0
"""`python3 deploy/oci_layout.py DAEMON IMAGE`: writes a container image that holds the daemon and
the texts of licences, as an OCI layout in a tar file.

The same daemon yields the same bytes on every machine: no times, no names of users, no compression,
whose bytes would depend on the version of a library.
"""

import hashlib
import io
import json
import re
import sys
import tarfile
from pathlib import Path

# No user of a distribution has this number, and it is not 65534: see `lodestone drain`.
USER = 7337
ROOT = Path(__file__).resolve().parents[1]
OCI = "application/vnd.oci.image"
# A CPU has a number in the header of ELF, and a name in images.
ARCHITECTURES = {62: "amd64", 183: "arm64"}


def main() -> None:
    daemon, image = map(Path, sys.argv[1:])
    image.write_bytes(layout(daemon.read_bytes(), version()))


def version() -> str:
    """Returns the version of the daemon's sources."""
    cargo = (ROOT / "daemon" / "Cargo.toml").read_text()
    return re.search(r'^version = "(.+)"$', cargo, re.MULTILINE)[1]


def architecture(program: bytes) -> str:
    """Returns the kind of CPU that an ELF program is for, as images name it."""
    machine = int.from_bytes(program[18:20], "little")
    if program[:4] != b"\x7fELF" or machine not in ARCHITECTURES:
        raise SystemExit(f"the daemon is a program for none of {list(ARCHITECTURES.values())}")
    return ARCHITECTURES[machine]


def layout(daemon: bytes, tag: str) -> bytes:
    """Returns the layout: three blobs, each named by its digest, and the index that names the
    manifest."""
    layer = layer_of(daemon)
    config = canonical(config_of(layer, tag, architecture(daemon)))
    manifest = canonical(
        {
            "schemaVersion": 2,
            "mediaType": f"{OCI}.manifest.v1+json",
            "config": descriptor(f"{OCI}.config.v1+json", config),
            "layers": [descriptor(f"{OCI}.layer.v1.tar", layer)],
        }
    )
    named = descriptor(f"{OCI}.manifest.v1+json", manifest)
    named["annotations"] = {"org.opencontainers.image.ref.name": tag}
    index = {"schemaVersion": 2, "mediaType": f"{OCI}.index.v1+json", "manifests": [named]}
    files = {
        "oci-layout": canonical({"imageLayoutVersion": "1.0.0"}),
        "index.json": canonical(index),
    }
    files |= {f"blobs/sha256/{digest(blob)}": blob for blob in (layer, config, manifest)}
    entries = [entry(folder) for folder in ("blobs", "blobs/sha256")]
    return tar([*entries, *(entry(name, content) for name, content in sorted(files.items()))])


def layer_of(daemon: bytes) -> bytes:
    """Returns the file system: the program, texts, and a folder for data that its user owns, for
    use without a volume."""
    texts = [ROOT / name for name in ("LICENSE", "NOTICE", "deploy/licences/third-party.txt")]
    return tar(
        [
            entry("data", mode=0o700, user=USER),
            entry("licences"),
            *(entry(f"licences/{text.name}", text.read_bytes()) for text in texts),
            entry("lodestone", daemon, mode=0o755),
        ]
    )


def config_of(layer: bytes, tag: str, cpu: str) -> dict:
    run = {
        "User": f"{USER}:{USER}",
        "Entrypoint": ["/lodestone"],
        # Nobody registers directories of executors in a container.
        "Cmd": [
            "serve",
            "--listen",
            "0.0.0.0:7337",
            "--dir",
            "/data",
            "--executor-root",
            "/var/empty",
        ],
        "ExposedPorts": {"7337/tcp": {}},
        "Volumes": {"/data": {}},
        "WorkingDir": "/",
        "StopSignal": "SIGTERM",
        "Labels": {
            "org.opencontainers.image.title": "lodestone",
            "org.opencontainers.image.description": "A shuffle service for Apache Spark",
            "org.opencontainers.image.licenses": "Apache-2.0",
            "org.opencontainers.image.version": tag,
        },
    }
    return {
        "architecture": cpu,
        "os": "linux",
        "config": run,
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest(layer)}"]},
    }


def descriptor(media_type: str, blob: bytes) -> dict:
    return {"mediaType": media_type, "digest": f"sha256:{digest(blob)}", "size": len(blob)}


def digest(blob: bytes) -> str:
    return hashlib.sha256(blob).hexdigest()


def canonical(value: dict) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def entry(
    name: str, content: bytes | None = None, mode: int | None = None, user: int = 0
) -> tuple[tarfile.TarInfo, bytes]:
    """Returns a file of a tar archive, or a folder if it has no content."""
    info = tarfile.TarInfo(name)
    is_file = content is not None
    info.type = tarfile.REGTYPE if is_file else tarfile.DIRTYPE
    info.mode = mode or (0o644 if is_file else 0o755)
    info.size = len(content or b"")
    info.uid = info.gid = user
    return info, content or b""


def tar(entries: list[tuple[tarfile.TarInfo, bytes]]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for info, content in entries:
            archive.addfile(info, io.BytesIO(content))
    return out.getvalue()


if __name__ == "__main__":
    main()
