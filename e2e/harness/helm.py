# SPDX-License-Identifier: Apache-2.0
"""Helm, and what it makes of the chart. `python -m harness.helm` writes `deploy/helm/rendered`."""

import hashlib
import os
import subprocess
from pathlib import Path

from .kept import kept
from .paths import ROOT

VERSION = "v3.22.0"
FOLDER = ROOT / "deploy" / "helm"
CHART, VALUES, RENDERED = (FOLDER / name for name in ("lodestone", "values", "rendered"))
BUILT = ROOT / ".cache" / f"helm-{VERSION}"


def helm(
    *arguments: object, access: Path = Path("/dev/null"), enter: tuple[str, ...] = ()
) -> subprocess.CompletedProcess:
    """Runs Helm, without a cluster if no `access` to one is given. `enter` begins the command. The
    first use builds Helm, which takes minutes."""
    program = kept(BUILT, build) / "helm"
    where = {"KUBECONFIG": str(access), "HELM_CACHE_HOME": str(BUILT / "cache")}
    return subprocess.run(
        [*enter, program, *map(str, arguments)],
        capture_output=True,
        text=True,
        env={**os.environ, **where},
    )


def build(folder: Path) -> None:
    module = f"helm.sh/helm/v3/cmd/helm@{VERSION}"
    environment = {**os.environ, "GOBIN": str(folder), "CGO_ENABLED": "0"}
    subprocess.run(["nice", "go", "install", "-ldflags=-s -w", module], env=environment, check=True)


def template(
    *arguments: object, chart: Path = CHART, release: str = "lodestone"
) -> subprocess.CompletedProcess:
    # A Helm that nobody released takes Kubernetes for an old one.
    version = ["--kube-version", "1.37.0", "--namespace", "shuffle"]
    return helm("template", release, chart, *version, *arguments)


def sources(name: str) -> str:
    """Returns a digest of all that a rendering follows from: the chart, and a file of values."""
    files = [path for path in sorted(CHART.rglob("*")) if path.is_file()]
    digest = hashlib.sha256()
    for path in [*files, VALUES / f"{name}.yaml"]:
        content = path.read_bytes()
        digest.update(f"{path.relative_to(FOLDER)} {len(content)}\n".encode() + content)
    return digest.hexdigest()


def rendering(name: str) -> str:
    """Returns the objects for a file of values, after the digest of their sources."""
    said = template("--values", VALUES / f"{name}.yaml")
    assert said.returncode == 0, said.stderr
    return f"# SPDX-License-Identifier: Apache-2.0\n{of_sources(name)}\n{said.stdout}"


def of_sources(name: str) -> str:
    return f"# Sources: sha256:{sources(name)}"


if __name__ == "__main__":
    for values_of in sorted(VALUES.glob("*.yaml")):
        (RENDERED / values_of.name).write_text(rendering(values_of.stem))
