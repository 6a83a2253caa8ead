# SPDX-License-Identifier: Apache-2.0
"""A kernel of Debian's with its modules, and the one program that the machine begins with."""

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from harness.kept import kept
from harness.paths import ROOT

# The names that `modprobe` takes: files of the host, a layer above them, and TLS with its ciphers,
# by instructions of the processor and without.
MODULES = (
    "virtio_pci", "9pnet_virtio", "9p", "overlay",
    "gcm", "aesni_intel", "ghash_clmulni_intel", "tls",
)  # fmt: skip
# Folders with them, and with those that they need.
FOLDERS = (
    "arch/x86/crypto", "crypto", "drivers/virtio", "fs/9p", "fs/fscache", "fs/netfs",
    "fs/overlayfs", "lib", "net/9p", "net/tls",
)  # fmt: skip
KERNEL = "linux-image-amd64"


@dataclass(frozen=True)
class Debian:
    """Unpacked packages."""

    root: Path

    @staticmethod
    def fetched() -> "Debian":
        return Debian(kept(ROOT / ".cache" / "debian-kernel", fetch))

    @property
    def kernel(self) -> Path:
        [kernel] = self.root.glob("boot/vmlinuz-*")
        return kernel

    def files(self) -> dict[str, tuple[int, bytes]]:
        """Returns what the kernel begins with, by name: permissions and content."""
        version = self.kernel.name.removeprefix("vmlinuz-")
        modules = self.root / "lib/modules" / version
        paths = [path for path in modules.glob("modules.*") if path.is_file()]
        for folder in FOLDERS:
            paths += (modules / "kernel" / folder).rglob("*.ko")
        found = {str(path.relative_to(self.root)): (0o644, path.read_bytes()) for path in paths}
        return found | {"bin/busybox": (0o755, (self.root / "bin/busybox").read_bytes())}


def fetch(folder: Path) -> None:
    """Fetches packages from where apt gets them, and unpacks them without installing any."""
    subprocess.run(["apt-get", "-qq", "update"], check=True)
    depends = subprocess.run(
        ["apt-cache", "depends", KERNEL], check=True, capture_output=True, text=True
    ).stdout
    # The one with the newest version, by its full name.
    [package] = re.findall(r"Depends: (linux-image-\S+-amd64)$", depends, re.MULTILINE)
    download = ["apt-get", "-qq", "download", package, "busybox-static"]
    subprocess.run(download, check=True, cwd=folder)
    for archive in folder.glob("*.deb"):
        subprocess.run(["dpkg-deb", "-x", archive, folder], check=True)
        archive.unlink()
    version = package.removeprefix("linux-image-")
    subprocess.run([folder / "bin/busybox", "depmod", "-b", folder, version], check=True)
