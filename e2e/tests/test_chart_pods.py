# SPDX-License-Identifier: Apache-2.0
"""Pods of the chart, as values of users make them."""

import json
import os
import subprocess
import sys
import urllib.request

import pytest
import yaml

from harness.daemon import Daemon
from harness.helm import RENDERED
from harness.kubernetes.cluster import Kubernetes
from harness.kubernetes.control_plane import ZONE, ControlPlane
from harness.kubernetes.daemonset import with_directories
from harness.kubernetes.images import unpacked
from harness.kubernetes.network import within
from harness.kubernetes.server import ApiServer
from harness.memory_limit import controller, memory_limit
from harness.paths import BENCH, DAEMON, ROOT

# Each API server, and the zone of its node. The stand-in has none.
SERVERS = [(ApiServer, ""), pytest.param((ControlPlane, ZONE), marks=pytest.mark.seldom)]


@pytest.fixture(scope="module", params=SERVERS, ids=["stand-in", "real"])
def zone_and_cluster(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("pods")
    layout = folder / "image.tar"
    subprocess.run([sys.executable, ROOT / "deploy/oci_layout.py", DAEMON, layout], check=True)
    images = {"lodestone:0.1.0": unpacked(layout, folder / "root")}
    plane, zone = request.param
    cluster = Kubernetes(folder / "node", images, plane)
    yield zone, cluster
    cluster.stop()


@pytest.fixture
def kubernetes(zone_and_cluster):
    yield zone_and_cluster[1]
    zone_and_cluster[1].clear()


def workload_of(name: str, kind: str) -> dict:
    documents = yaml.safe_load_all((RENDERED / f"{name}.yaml").read_text())
    [workload] = [one for one in documents if one and one["kind"] == kind]
    return workload


def status_of(kubernetes, pod) -> dict:
    url = f"http://{pod.address}:7338/status"
    return within(kubernetes.hub, lambda: json.load(urllib.request.urlopen(url, timeout=10)))


def test_services_run_as_the_user_of_the_values_in_the_zone_of_their_node(
    kubernetes, zone_and_cluster
):
    zone, _ = zone_and_cluster
    manifest = workload_of("user", "StatefulSet")
    services = kubernetes.stateful_set(manifest)
    [pod] = services.start()
    assert os.stat(f"/proc/{pod.pid}").st_uid == 1000660000
    # Without the label the flag is empty.
    assert status_of(kubernetes, pod)["zone"] == zone
    again = services.replace(0)
    assert again.address != pod.address
    assert pod.story[-1] == ("exit", 0), pod.log.read_text()
    services.end()


@pytest.mark.seldom
@pytest.mark.skipif(controller() is None, reason="this machine has no limits of memory")
@pytest.mark.parametrize("name", ["user", "small"])
def test_as_many_clients_as_a_service_takes_do_not_get_it_killed_for_its_memory(name, tmp_path):
    spec = workload_of(name, "StatefulSet")["spec"]["template"]["spec"]
    [container] = spec["containers"]
    [memory] = [word for word in container["args"] if word.startswith("--memory=")]
    limit = int(container["resources"]["limits"]["memory"].removesuffix("Mi"))
    with memory_limit(limit) as within_limit:
        daemon = Daemon(
            tmp_path / "service",
            memory=memory.removeprefix("--memory="),
            program=(*within_limit, DAEMON),
        )
        load = ["--connections", "4000", "--total", "512m", "--rounds", "1", "--warmup", "0"]
        try:
            # More bytes than the service has memory: it writes to its disk meanwhile.
            push = [BENCH, "push", "--server", daemon.host_port, "--block", "10k", *load]
            said = subprocess.run(push, capture_output=True, text=True, timeout=300)
            assert said.returncode == 0, said.stderr
            assert daemon.process.poll() is None
        finally:
            daemon.stop()


def test_a_service_of_a_node_has_its_address_and_finds_its_directories_again(kubernetes, tmp_path):
    manifest = with_directories(workload_of("nodes", "DaemonSet"), tmp_path)
    services = kubernetes.daemon_set(manifest)
    first = services.start()
    second = services.replace()
    assert first.uid != second.uid
    assert first.address == second.address == kubernetes.driver.address
    assert first.story[-1] == ("exit", 0), first.log.read_text()
