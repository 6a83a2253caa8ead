# SPDX-License-Identifier: Apache-2.0
"""`container.py SPECIFICATION`: the parent of a container's first process.

It writes the process id of the container to the pipe that the specification names, and ends with
the exit code of the container, as a shell would report it. When the first process ends, the system
kills all others of the container.
"""

import json
import os
import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import system  # noqa: E402


def main() -> None:
    specification = json.loads(Path(sys.argv[1]).read_text())
    die_with(specification["parent"])
    system.enter_network(specification["network"])
    isolated = system.CLONE_NEWNS | system.CLONE_NEWPID | system.CLONE_NEWUTS | system.CLONE_NEWIPC
    system.unshare(isolated)
    pid = os.fork()
    if pid == 0:
        become(specification)
    with open(specification["pipe"], "w") as pipe:
        pipe.write(str(pid))
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    os._exit(code if code >= 0 else 128 - code)


def die_with(parent: int) -> None:
    """Lets the system kill this process, and the container with it, when the thread ends that
    started it."""
    system.control(system.PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def become(specification: dict) -> None:
    """Turns this process into the container's program."""
    try:
        os.close(specification["pipe"])
        root = mounted(specification)
        system.set_hostname(specification["hostname"])
        os.chroot(root)
        os.chdir("/")
        give_up_rights(specification)
        os.execvpe(specification["argv"][0], specification["argv"], specification["environment"])
    except BaseException as error:  # it must not go on as the parent's copy
        print(f"the container does not start: {error!r}", file=sys.stderr, flush=True)
        os._exit(127)


def mounted(specification: dict) -> str:
    """Returns the root of the container: its image, changes in memory, and volumes."""
    system.mount("none", "/", None, system.MS_REC | system.MS_PRIVATE)
    layers = specification["layers"]
    system.mount("tmpfs", layers, "tmpfs", 0, "mode=0755")
    upper, work, root = (f"{layers}/{name}" for name in ("upper", "work", "root"))
    for folder in (upper, work, root):
        os.mkdir(folder)
    lower = specification["root"]
    options = f"lowerdir={lower},upperdir={upper},workdir={work}"
    system.mount("overlay", root, "overlay", 0, options)
    place(root, "/proc", is_folder=True)
    system.mount("proc", f"{root}/proc", "proc", 0)
    for path in ("/dev", "/sys", *specification["of_the_machine"]):
        bind(path, place(root, path, os.path.isdir(path)), read_only=False)
    for volume in specification["mounts"]:
        source = volume["source"]
        target = place(root, volume["target"], os.path.isdir(source))
        bind(source, target, volume["read_only"])
    if specification["read_only_root"]:
        flags = system.MS_REMOUNT | system.MS_BIND | system.MS_RDONLY
        system.mount("none", root, None, flags)
    return root


def place(root: str, path: str, is_folder: bool) -> str:
    """Makes an empty file or folder to mount on, and returns its path."""
    target = Path(root + path)
    (target if is_folder else target.parent).mkdir(parents=True, exist_ok=True)
    if not is_folder:
        target.touch()
    return str(target)


def bind(source: str, target: str, read_only: bool) -> None:
    system.mount(source, target, None, system.MS_BIND | system.MS_REC)
    if read_only:
        flags = system.MS_REMOUNT | system.MS_BIND | system.MS_RDONLY
        system.mount("none", target, None, flags)


def give_up_rights(specification: dict) -> None:
    if specification["drops_capabilities"]:
        for capability in range(system.LAST_CAPABILITY + 1):
            system.control(system.PR_CAPBSET_DROP, capability)
    if specification["user"] is not None:
        os.setgroups(specification["groups"])
        os.setgid(specification["group"])
        os.setuid(specification["user"])
    if specification["no_new_privileges"]:
        system.control(system.PR_SET_NO_NEW_PRIVS, 1)
    # A change of the user would cancel it.
    system.control(system.PR_SET_PDEATHSIG, signal.SIGKILL)


if __name__ == "__main__":
    main()
