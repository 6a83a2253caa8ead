# SPDX-License-Identifier: Apache-2.0
"""The result of a bench: the machine, the settings, and every single run."""

import json
import os
import platform
import subprocess
from dataclasses import asdict
from datetime import datetime, timezone
from pathlib import Path

from harness.paths import ROOT

from .sides import EXECUTOR_OPTIONS, Setting

UNKNOWN = "unknown"


def begun(setting: Setting, command: str, rounds: int, changed: dict) -> dict:
    """Returns a result without runs. `changed`: the options that make it another measurement than
    the usual one."""
    shared = asdict(setting)
    shared.pop("tables")
    if shared.pop("before"):
        shared["before"] = commit(setting.before)
    if os.environ.get(EXECUTOR_OPTIONS):
        shared["executorOptions"] = os.environ[EXECUTOR_OPTIONS]
    return {
        "date": datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "commit": commit(),
        "command": command,
        "machine": machine(),
        "setting": {**shared, "master": setting.master},
        "rounds": rounds,
        "changed": changed,
        "sizes": {},
        "runs": [],
    }


def machine() -> dict:
    models = [
        line.split(":")[1].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    ]
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {
        "cpus": os.cpu_count(),
        "cpu": models[0] if models else platform.machine(),
        "memoryGb": round(pages / 2**30),
        "system": f"Linux {platform.release()}",
    }


def commit(checkout: Path = ROOT) -> str:
    """Returns the commit, with a plus sign if the tree has changes, also new files, outside of
    `bench/results`.

    The texts there come from the bench itself, and one command after another may write some.
    """
    head = git(checkout, "rev-parse", "--short", "HEAD")
    changes = git(checkout, "status", "--porcelain", "--", ".", ":(exclude)bench/results")
    if head is None or changes is None:
        return UNKNOWN
    return f"{head}+" if changes else head


def git(checkout: Path, *words: str) -> str | None:
    """Returns the output of git; None if it fails."""
    done = subprocess.run(
        ["git", *words], cwd=checkout, capture_output=True, text=True, check=False
    )
    return done.stdout.strip() if done.returncode == 0 else None


def write(path: Path, content: dict) -> None:
    """Writes a file as a whole or not at all."""
    unfinished = path.with_suffix(".unfinished")
    unfinished.write_text(json.dumps(content, indent=1) + "\n")
    unfinished.rename(path)
