# SPDX-License-Identifier: Apache-2.0
"""Kubernetes' own API server and controller accept the chart, and do with it what the stand-in of
the other tests does."""

import subprocess
import sys

import pytest
import yaml

from harness.helm import RENDERED, VALUES
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
