# SPDX-License-Identifier: Apache-2.0
"""The kubelet of the tests does to pods what Kubernetes does: otherwise the tests of Spark on
Kubernetes would say nothing about it."""

import subprocess
import sys
from pathlib import Path

import pytest

from harness.daemon import wait_until
from harness.hosts import ip
from harness.kubernetes.cluster import Kubernetes
from harness.kubernetes.images import Image
from harness.paths import ROOT

SHELL = Image(Path("/"), ["/bin/sh", "-c"], environment={"PATH": "/usr/bin:/bin"})


@pytest.fixture(scope="module")
def kubernetes(tmp_path_factory):
    cluster = Kubernetes(tmp_path_factory.mktemp("kubelet") / "node", {"shell": SHELL})
    yield cluster
    cluster.stop()


def pod_of(name: str, script: str, spec: dict | None = None, **container) -> dict:
    runs = {"name": "main", "image": "shell", "args": [script], **container}
    metadata = {"name": name, "namespace": "jobs", "labels": {"app": name}}
    whole = {"restartPolicy": "Never", **(spec or {}), "containers": [runs]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": whole}


def container_status(kubernetes, name: str) -> dict:
    [pod] = kubernetes.pods("jobs", app=name)
    [status] = pod["status"].get("containerStatuses", [{}])
    return status | {"phase": pod["status"]["phase"]}


def ended(kubernetes, name: str) -> dict:
    def end():
        status = container_status(kubernetes, name)
        return status if "terminated" in status.get("state", {}) else None

    return wait_until(end, f"the end of {name}")


def delete(kubernetes, name: str):
    """Deletes a pod in good order, and returns what it was."""
    pod = kubernetes.kubelet.pod(name)
    kubernetes.api.delete(pod.path)
    pod.join(30)
    assert not pod.is_alive()
    return pod


def is_ready(kubernetes, name: str) -> bool:
    return container_status(kubernetes, name).get("ready", False)


def test_a_driver_learns_with_which_code_an_executor_has_ended(kubernetes):
    kubernetes.apply(pod_of("fails", "exit 3"))
    status = ended(kubernetes, "fails")
    assert (status["phase"], status["state"]["terminated"]["exitCode"]) == ("Failed", 3)
    kubernetes.apply(pod_of("succeeds", "exit 0"))
    assert ended(kubernetes, "succeeds")["phase"] == "Succeeded"


def test_volumes_are_there_with_the_modes_that_kubernetes_gives_them(kubernetes):
    metadata = {"name": "words", "namespace": "jobs"}
    kubernetes.apply(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": "one"}}
    )
    kubernetes.apply(
        {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": {"b": "dHdv"}}
    )
    fields = {"items": [{"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}]}
    volumes = {
        "empty": {"emptyDir": {}},
        "config": {"configMap": {"name": "words"}},
        "secret": {"secret": {"secretName": "words", "defaultMode": 0o440}},
        "fields": {"downwardAPI": fields},
    }
    spec = {
        "volumes": [{"name": name, **source} for name, source in volumes.items()],
        "securityContext": {"runAsUser": 7337, "runAsGroup": 7337, "fsGroup": 7337},
    }
    mounts = [{"name": name, "mountPath": f"/var/test/{name}"} for name in volumes]
    script = (
        "cd /var/test && cat config/a secret/b fields/name && id -u && touch empty/mine"
        " && stat -Lc '%a %g' empty secret secret/b && ! touch /bin/mine"
    )
    kubernetes.apply(pod_of("mounts", script, spec, volumeMounts=mounts))
    status = ended(kubernetes, "mounts")
    log = kubernetes.kubelet.pod("mounts").log.read_text()
    assert status["phase"] == "Succeeded", log
    assert "onetwomounts7337\n2777 7337\n1777 0\n440 7337\n" in log


def test_a_pod_has_an_address_and_processes_of_its_own(kubernetes):
    script = "hostname; hostname -i; ls -d /proc/[0-9]*; ip address show"
    for name in ("first", "second"):
        kubernetes.apply(pod_of(name, script))
        ended(kubernetes, name)
    first, second = (kubernetes.kubelet.pod(name) for name in ("first", "second"))
    assert first.address != second.address
    log = second.log.read_text()
    assert log.startswith(f"second\n{second.address}\n/proc/1\n"), log
    assert f"{second.address}/24" in log and first.address not in log


def test_a_pod_that_ignores_sigterm_is_killed_when_its_grace_period_is_over(kubernetes):
    script = "trap '' TERM; touch /tmp/ready; while :; do sleep 0.1; done"
    spec = {"terminationGracePeriodSeconds": 1}
    probe = {"exec": {"command": ["test", "-e", "/tmp/ready"]}, "periodSeconds": 1}
    kubernetes.apply(pod_of("stubborn", script, spec, readinessProbe=probe))
    wait_until(lambda: is_ready(kubernetes, "stubborn"), "it ignores the signal")
    story = delete(kubernetes, "stubborn").story
    assert story == [("signal", "SIGTERM"), ("signal", "SIGKILL"), ("exit", 137)]
    assert kubernetes.pods("jobs", app="stubborn") == []


def test_the_hook_runs_before_sigterm_and_its_time_is_that_of_the_pod(kubernetes):
    script = "trap 'cat /tmp/hook; exit 5' TERM; touch /tmp/ready; while :; do sleep 0.1; done"
    hook = {"preStop": {"exec": {"command": ["/bin/sh", "-c", "echo hooked > /tmp/hook"]}}}
    probe = {"exec": {"command": ["test", "-e", "/tmp/ready"]}, "periodSeconds": 1}
    kubernetes.apply(pod_of("hooked", script, lifecycle=hook, readinessProbe=probe))
    wait_until(lambda: is_ready(kubernetes, "hooked"), "it has a trap")
    pod = delete(kubernetes, "hooked")
    assert pod.story == [("hook", True), ("signal", "SIGTERM"), ("exit", 5)]
    assert "hooked" in pod.log.read_text()


def test_a_container_that_is_not_alive_starts_again_in_the_same_pod(kubernetes):
    script = "touch /var/kept/$(ls /var/kept | wc -l); while :; do sleep 0.1; done"
    probe = {"exec": {"command": ["test", "-e", "/var/kept/1"]}, "periodSeconds": 1}
    spec = {"restartPolicy": "Always", "volumes": [{"name": "kept", "emptyDir": {}}]}
    spec["terminationGracePeriodSeconds"] = 1
    mounts = [{"name": "kept", "mountPath": "/var/kept"}]
    kubernetes.apply(pod_of("ill", script, spec, livenessProbe=probe, volumeMounts=mounts))
    wait_until(lambda: container_status(kubernetes, "ill").get("restartCount"), "a restart")
    pod = delete(kubernetes, "ill")
    assert pod.story[0] == ("not alive", 3)
    assert container_of_is_gone(pod)


def test_a_pod_that_is_deleted_at_once_does_not_wait_for_its_hook_or_its_grace_period(kubernetes):
    script = "trap '' TERM; touch /tmp/ready; while :; do sleep 0.1; done"
    probe = {"exec": {"command": ["test", "-e", "/tmp/ready"]}, "periodSeconds": 1}
    spec = {"terminationGracePeriodSeconds": 600}
    hook = {"preStop": {"exec": {"command": ["/bin/sh", "-c", "touch /tmp/hook; sleep 600"]}}}
    for name, container in {"patient": {}, "long-hook": {"lifecycle": hook}}.items():
        kubernetes.apply(pod_of(name, script, spec, readinessProbe=probe, **container))
        wait_until(lambda name=name: is_ready(kubernetes, name), f"{name} is ready")
        pod = kubernetes.kubelet.pod(name)
        kubernetes.api.delete(pod.path)
        is_in_hook = Path(f"/proc/{pod.pid}/root/tmp/hook").exists
        wait_until(lambda pod=pod, hooked=is_in_hook: pod.story or hooked(), "its end begins")
        kubernetes.kill(pod)
        assert container_of_is_gone(pod)


def test_a_test_that_is_killed_leaves_no_container(tmp_path):
    script = (
        "import sys; sys.path[:0] = sys.argv[1:3]; from pathlib import Path; import test_kubelet\n"
        "from harness.kubernetes.cluster import Kubernetes\n"
        "cluster = Kubernetes(Path(sys.argv[3]), {'shell': test_kubelet.SHELL})\n"
        "cluster.apply(test_kubelet.pod_of('left', 'while :; do sleep 0.1; done'))\n"
        "test_kubelet.wait_until(lambda: test_kubelet.is_ready(cluster, 'left'), 'it runs')\n"
        "print(cluster.kubelet.pod('left').pid, flush=True); sys.stdin.read()"
    )
    folders = [str(ROOT / "e2e"), str(ROOT / "e2e" / "tests"), str(tmp_path / "node")]
    other = subprocess.Popen(
        [sys.executable, "-c", script, *folders],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        container = Path(f"/proc/{int(other.stdout.readline())}")
    finally:
        other.kill()
        other.wait()
        for number in range(2):
            ip("netns", "delete", f"lodestone-{other.pid}-{number}")
    wait_until(lambda: not container.exists(), "its container is gone")


def container_of_is_gone(pod) -> bool:
    return not Path(f"/proc/{pod.pid}").exists()
