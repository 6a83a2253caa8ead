# SPDX-License-Identifier: Apache-2.0
"""Grafana's own types of dashboards, and a compiler that compares documents with them."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from .kept import kept
from .paths import ROOT

SOURCES = ROOT / "e2e" / "grafana"
# Node.js and npm, as a package of this Python.
BIN = Path(sys.executable).parent
FAULT = re.compile(r"^(\S+?)\.ts\(\d+,\d+\): (.*)", re.MULTILINE)


def installed() -> Path:
    """Returns a folder with the packages, fetched once."""
    versions = json.loads((SOURCES / "package.json").read_text())["dependencies"]
    return kept(ROOT / ".cache" / f"grafana-schema-{versions['@grafana/schema']}", fetch)


def fetch(folder: Path) -> None:
    for name in ("package.json", "package-lock.json"):
        shutil.copy(SOURCES / name, folder)
    options = ["--loglevel", "error", "--no-audit", "--no-fund", "--ignore-scripts"]
    path = f"{BIN}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path}
    subprocess.run([BIN / "npm", "ci", *options], cwd=folder, env=environment, check=True)


def faults(documents: dict[str, str], folder: Path) -> dict[str, list[str]]:
    """Returns what the compiler says against each dashboard, by its name. `folder` is empty."""
    (folder / "node_modules").symlink_to(installed() / "node_modules")
    shutil.copy(SOURCES / "schema.ts", folder)
    for name, text in documents.items():
        checked = f"export default {text.strip()} satisfies Document;\n"
        imported = 'import type { Document } from "./schema";\n'
        (folder / f"{name}.ts").write_text(imported + checked)
    options = ["--noEmit", "--strict", "--skipLibCheck", "--pretty", "false"]
    options += ["--module", "preserve", "--target", "es2022"]
    compiler = [BIN / "node", "node_modules/typescript/bin/tsc", *options]
    said = subprocess.run(
        [*compiler, *(f"{name}.ts" for name in documents)],
        cwd=folder,
        capture_output=True,
        text=True,
    )
    found = {name: [] for name in documents}
    for name, fault in FAULT.findall(said.stdout):
        # A fault of the schema, or of the packages, is nobody's.
        assert name in found, said.stdout
        found[name].append(fault)
    assert bool(said.returncode) == any(found.values()), said.stdout + said.stderr
    return found
