# SPDX-License-Identifier: Apache-2.0
"""Kubernetes' own API server and controller accept the chart, and do with it what the stand-in of
the other tests does."""

import subprocess
import sys

import pytest
import yaml

from harness.helm import CHART, RENDERED, VALUES, helm, template
from harness.kubernetes.api import ApiError
from harness.kubernetes.cluster import Kubernetes
from harness.kubernetes.control_plane import ControlPlane
from harness.kubernetes.images import unpacked
from harness.paths import DAEMON, ROOT

pytestmark = pytest.mark.seldom
NAMES = sorted(path.stem for path in VALUES.glob("*.yaml"))
# The group of each kind of the chart, and its name in paths. Monitors are of an operator.
FOLDERS = {
    "Service": "/api/v1/{}/services",
    "StatefulSet": "/apis/apps/v1/{}/statefulsets",
    "DaemonSet": "/apis/apps/v1/{}/daemonsets",
    "NetworkPolicy": "/apis/networking.k8s.io/v1/{}/networkpolicies",
    "PodDisruptionBudget": "/apis/policy/v1/{}/poddisruptionbudgets",
}


@pytest.fixture(scope="module")
def kubernetes(tmp_path_factory):
    folder = tmp_path_factory.mktemp("real")
    layout = folder / "image.tar"
    subprocess.run([sys.executable, ROOT / "deploy/oci_layout.py", DAEMON, layout], check=True)
    images = {"lodestone:0.1.0": unpacked(layout, folder / "root")}
    cluster = Kubernetes(folder / "node", images, ControlPlane)
    yield cluster
    cluster.stop()


@pytest.mark.parametrize("name", NAMES)
def test_the_api_server_accepts_every_object_of_the_chart(kubernetes, name):
    documents = yaml.safe_load_all((RENDERED / f"{name}.yaml").read_text())
    for document in filter(None, documents):
        if document["kind"] in FOLDERS:
            path = FOLDERS[document["kind"]].format("namespaces/shuffle")
            query = "dryRun=All&fieldValidation=Strict"
            made = kubernetes.api.post(f"{path}?{query}", document)
            assert made["metadata"]["uid"]


def test_an_upgrade_cannot_change_the_volumes_of_a_service(kubernetes):
    manifest = manifest_of("small")
    manifest["spec"]["replicas"] = 0
    folder = FOLDERS["StatefulSet"].format("namespaces/shuffle")
    kubernetes.api.post(folder, manifest)
    [claim] = manifest["spec"]["volumeClaimTemplates"]
    claim["spec"]["resources"]["requests"]["storage"] = "2Gi"
    with pytest.raises(ApiError, match="volumeClaimTemplates.*field is immutable") as refused:
        kubernetes.api.patch(f"{folder}/lodestone", {"spec": {"volumeClaimTemplates": [claim]}})
    assert refused.value.status == 422
    kubernetes.api.delete(f"{folder}/lodestone")


def manifest_of(name: str) -> dict:
    documents = yaml.safe_load_all((RENDERED / f"{name}.yaml").read_text())
    [manifest] = [one for one in documents if one and one["kind"] == "StatefulSet"]
    return manifest


def test_a_rolling_update_gives_each_service_its_name_again_and_another_address(kubernetes):
    services = kubernetes.stateful_set(manifest_of("small"))
    before = services.start()
    after = services.update()
    assert [pod.name for pod in after] == [pod.name for pod in before]
    for old, new in zip(before, after, strict=True):
        assert old.address != new.address
        assert old.story[-1] == ("exit", 0)
    for pod in services.end():
        assert pod.story[-1] == ("exit", 0)


@pytest.fixture
def run_helm(kubernetes):
    """Runs Helm with the API server, and returns what it prints."""
    enter = ("ip", "netns", "exec", kubernetes.hub)

    def run(*arguments: object) -> str:
        where = ["--namespace", "shuffle"]
        done = helm(*arguments, *where, access=kubernetes.plane.access, enter=enter)
        assert done.returncode == 0, done.stderr
        return done.stdout

    yield run
    kubernetes.clear()


def test_helm_installs_upgrades_and_removes_what_it_renders(kubernetes, run_helm):
    values = ["--values", VALUES / "small.yaml"]
    until_ready = ["--wait", "--timeout=180s"]
    notes = run_helm("install", "lodestone", CHART, *values, *until_ready)
    assert "  spark.lodestone.services=lodestone-0.lodestone.shuffle.svc:7337," in notes
    first = (RENDERED / "small.yaml").read_text()
    assert different_from(first, kubernetes) == []
    changed = [*values, "--set", "memory=320Mi"]
    run_helm("upgrade", "lodestone", CHART, *changed, *until_ready)
    second = template(*changed).stdout
    assert different_from(second, kubernetes) == []
    assert different_from(first, kubernetes) != []
    run_helm("uninstall", "lodestone")
    for document in documents_of(second):
        with pytest.raises(ApiError) as gone:
            kubernetes.api.get(path_in_server(document))
        assert gone.value.status == 404


def documents_of(rendered: str) -> list[dict]:
    return [document for document in yaml.safe_load_all(rendered) if document]


def path_in_server(document: dict) -> str:
    folder = FOLDERS[document["kind"]].format("namespaces/shuffle")
    return f"{folder}/{document['metadata']['name']}"


def different_from(rendered: str, kubernetes) -> list[str]:
    """Returns the fields that the server has not, or not as they are rendered. It may have more."""
    found = []
    for document in documents_of(rendered):
        there = kubernetes.api.get(path_in_server(document))
        found += differences(document, there, document["kind"])
    return found


def differences(wanted, there, at: str) -> list[str]:
    if isinstance(wanted, dict) and isinstance(there, dict):
        pairs = [(key, value, there.get(key)) for key, value in wanted.items()]
    elif isinstance(wanted, list) and isinstance(there, list) and len(wanted) == len(there):
        pairs = list(zip(range(len(wanted)), wanted, there, strict=True))
    else:
        # The server leaves out what is empty.
        is_same = wanted == there or (not wanted and there is None)
        return [] if is_same else [f"{at}: {wanted!r}, and there {there!r}"]
    return [line for key, one, other in pairs for line in differences(one, other, f"{at}.{key}")]
