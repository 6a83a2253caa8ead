# SPDX-License-Identifier: Apache-2.0
"""Runs a command in a machine with a kernel of Debian, which has what this host's may lack: TLS.

The machine is emulated, so it needs no support by the processor, and is some ten times slower. It
sees the files of this host, except those in /tmp and /run. What it writes is lost at its end. It
ends with the command's exit code, after half an hour at most."""

import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

from .debian import MODULES, Debian
from .initrd import archive

MEMORY_MB = 3000
# With two, or with a newer one, the JVMs of the command crash in this emulator.
PROCESSOR, PROCESSORS = "Westmere", 1
RESULT = "the command ended with "
TIMEOUT_S = 1800
MOUNTED = ("proc", "sys", "dev")
KEPT_VARIABLES = ("PATH", "HOME", "PYTHONPATH", "JAVA_HOME", "RUST_BACKTRACE")

# `busybox` is the only program: this runs before there is any other file.
INIT = """#!/bin/busybox sh
b=/bin/busybox
$b mount -t proc proc /proc; $b mount -t sysfs sys /sys; $b mount -t devtmpfs dev /dev
for module in {modules}; do
  $b modprobe $module || {{ echo "no module $module"; echo "{result}1"; $b poweroff -f; }}
done
$b hostname machine; $b ifconfig lo 127.0.0.1 up
$b mount -t 9p -o trans=virtio,version=9p2000.L,msize=1048576,cache=loose,ro host /host
$b mount -t tmpfs written /written; $b mkdir /written/files /written/work
$b mount -t overlay -o lowerdir=/host,upperdir=/written/files,workdir=/written/work all /all
for folder in {mounted}; do $b mount --bind /$folder /all/$folder; done
$b mount -t tmpfs tmp /all/tmp; $b mount -t tmpfs run /all/run
echo "127.0.0.1 localhost machine" > /all/etc/hosts
$b cp /command /all/run/command
$b timeout {timeout} $b chroot /all /bin/bash /run/command
code=$?; echo; echo "{result}$code"
$b poweroff -f
"""


def main() -> int:
    debian = Debian.fetched()
    command = ["export KERNEL_HAS_TLS=1", f"cd {shlex.quote(os.getcwd())} || exit 1"]
    for name in KEPT_VARIABLES:
        if name in os.environ:
            command.append(f"export {name}={shlex.quote(os.environ[name])}")
    command.append(shlex.join(sys.argv[1:]))
    words = {"modules": " ".join(MODULES), "mounted": " ".join(MOUNTED)}
    init = INIT.format(**words, result=RESULT, timeout=TIMEOUT_S)
    files = debian.files() | {
        "init": (0o755, init.encode()),
        "command": (0o644, "\n".join(command).encode()),
    }
    folders = ["host", "written", "all", *MOUNTED]
    with tempfile.TemporaryDirectory() as scratch:
        initrd = Path(scratch) / "initrd"
        initrd.write_bytes(archive(folders, files))
        return boot(debian.kernel, initrd)


def boot(kernel: Path, initrd: Path) -> int:
    """Prints what the machine prints, and returns the exit code of its command."""
    command = [
        "qemu-system-x86_64", "-accel", "tcg", "-cpu", PROCESSOR,
        "-m", str(MEMORY_MB), "-smp", str(PROCESSORS),
        "-nodefaults", "-display", "none", "-serial", "stdio", "-no-reboot",
        "-kernel", str(kernel), "-initrd", str(initrd), "-append", "console=ttyS0 quiet panic=-1",
        "-fsdev", "local,id=host,path=/,security_model=none,readonly=on,multidevs=remap",
        "-device", "virtio-9p-pci,fsdev=host,mount_tag=host",
    ]  # fmt: skip
    code = 1
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, errors="replace"
    ) as machine:
        for line in machine.stdout:
            if line.startswith(RESULT):
                code = int(line.removeprefix(RESULT).strip())
            else:
                print(line, end="", flush=True)
    return code


if __name__ == "__main__":
    sys.exit(main())
