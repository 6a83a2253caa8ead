# SPDX-License-Identifier: Apache-2.0
"""Spark on Kubernetes: executors and services are pods, with addresses, volumes and ends of their
own."""

import base64
import itertools
import os
import subprocess
import sys
from collections.abc import Callable

import pytest
import yaml

from harness import driver, jvm
from harness.certificate import certificate
from harness.helm import RENDERED
from harness.in_turns import IN_TURNS, arguments_of, assert_no_task_ran_again, wait_for_a_turn
from harness.kubernetes.cluster import Kubernetes
from harness.kubernetes.control_plane import ControlPlane
from harness.kubernetes.daemonset import with_directories
from harness.kubernetes.images import spark_image, unpacked
from harness.kubernetes.server import ApiServer
from harness.kubernetes.statefulset import StatefulSet
from harness.kubernetes.submitted import SubmittedJob
from harness.leaks import assert_kept
from harness.paths import DAEMON, ROOT
from harness.processes import command_line, descendants
from harness.spark_process import Job

MAPS, PARTITIONS = 6, 16
LAYOUT = ROOT / "deploy" / "oci_layout.py"
SERVICES = "lodestone-0.lodestone.shuffle.svc:7337,lodestone-1.lodestone.shuffle.svc:7337"


@pytest.fixture(scope="module")
def image(tmp_path_factory):
    folder = tmp_path_factory.mktemp("image")
    layout = folder / "image.tar"
    subprocess.run([sys.executable, LAYOUT, DAEMON, layout], check=True)
    return unpacked(layout, folder / "root")


@pytest.fixture(
    scope="module", params=[ApiServer, pytest.param(ControlPlane, marks=pytest.mark.seldom)]
)
def cluster(request, spark, image, tmp_path_factory):
    """Starts one Kubernetes for all tests, so that they share the driver's JVM."""
    of_services = {"lodestone:0.1.0": image, "example/lodestone:0.1.0": image}
    images = {**of_services, "spark": spark_image(spark)}
    folder = tmp_path_factory.mktemp("kubernetes") / "node"
    started = Kubernetes(folder, images, request.param)
    yield started
    driver.stop_idle()
    started.stop()


@pytest.fixture
def kubernetes(cluster):
    """A Kubernetes without pods and volumes."""
    yield cluster
    cluster.clear()


@pytest.fixture
def manifest() -> dict:
    """Returns the StatefulSet of the chart, with two services."""
    return manifest_of("small")


def manifest_of(name: str, kind: str = "StatefulSet") -> dict:
    documents = yaml.safe_load_all((RENDERED / f"{name}.yaml").read_text())
    [workload] = [one for one in documents if one and one["kind"] == kind]
    return workload


@pytest.fixture
def services(kubernetes, manifest) -> StatefulSet:
    return kubernetes.stateful_set(manifest)


@pytest.fixture
def gates(kubernetes):
    """Gates that pods reach."""
    opened = kubernetes.gates()
    yield opened
    opened.close()


def job_on(kubernetes, gates, spark, passes=1, **conf) -> Job:
    """Returns a job with two executors, which are pods."""
    arguments = {"maps": MAPS, "partitions": PARTITIONS, "passes": passes, "gates": gates.address}
    return Job("keyed_rows", arguments, **in_pods(kubernetes, spark, conf))


def in_pods(kubernetes, spark, conf) -> dict:
    """Returns the rest of such a job."""
    ours = {
        "spark.kubernetes.namespace": "jobs",
        "spark.kubernetes.container.image": "spark",
        "spark.kubernetes.allocation.batch.delay": "200ms",
        "spark.executor.instances": "2",
        "spark.executor.cores": "1",
        "spark.executor.memory": "512m",
        "spark.executorEnv.PYTHONPATH": str(ROOT / "e2e"),
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",
        "spark.scheduler.maxRegisteredResourcesWaitingTime": "60s",
        # Spark's own default: a volume at /var/data/spark-<uuid>.
        "spark.local.dir": None,
        # Names of services get other addresses, which a JVM otherwise notices after 30 s.
        "spark.executor.extraJavaOptions": f"{jvm.options(spark)} -Dsun.net.inetaddr.ttl=5",
        "spark.driver.extraJavaOptions": f"{jvm.options(spark)} -Dsun.net.inetaddr.ttl=5",
    }
    settings = ours | kubernetes.conf | conf
    return {"master": kubernetes.api.master, "conf": settings, "driver": kubernetes.driver}


@pytest.fixture
def finish(gates, plain_answer):
    """Opens all gates, waits for the end of a job, and compares its answer with plain Spark's."""

    def to_the_end(running, job):
        gates.open_all()
        outcome = running.wait()
        assert outcome.answer == plain_answer(job)
        return outcome

    return to_the_end


@pytest.fixture
def submit(kubernetes, spark):
    """Submits jobs in cluster mode."""
    started = []

    def run(job: Job) -> SubmittedJob:
        started.append(SubmittedJob(spark, kubernetes, job))
        return started[-1]

    yield run
    for job in started:
        job.kill()


def daemons_in(pod) -> list[str]:
    """Returns the command lines of daemons in a pod of Spark."""
    lines = [command_line(pid) for pid in descendants(pod.pid)]
    return [" ".join(line) for line in lines if "serve" in line]


def executor_pods(kubernetes) -> list:
    pods = kubernetes.pods("jobs", **{"spark-role": "executor"})
    return [kubernetes.kubelet.pod(pod["metadata"]["name"]) for pod in pods]


@pytest.mark.seldom
@pytest.mark.lines("4.1")
def test_with_nothing_configured_each_pod_has_a_daemon_that_ends_with_it(
    kubernetes, spark, gates, start_job, finish
):
    job = job_on(kubernetes, gates, spark)
    running = start_job(job)
    gates.run_maps(MAPS)
    gates.open_all(but=("reduce-0",))
    gates.wait_reached("reduce-0")
    pods = executor_pods(kubernetes)
    for pod in pods:
        [daemon] = daemons_in(pod)
        assert f"{pod.address}:0" in daemon and "/var/data/spark-" in daemon
    outcome = finish(running, job)
    assert outcome.report["totals"]["mergedBlocksRead"] == MAPS * PARTITIONS
    assert outcome.reasons() == {}


@pytest.mark.lines("4.1")
def test_a_pod_that_is_killed_takes_its_daemon_along_and_costs_no_row(
    kubernetes, spark, gates, start_job, finish
):
    job = job_on(kubernetes, gates, spark, passes=2)
    running = start_job(job)
    gates.run_first_pass(MAPS)
    [killed, other] = executor_pods(kubernetes)
    pids = descendants(killed.pid)
    assert len(daemons_in(killed)) == 1
    kubernetes.kill(killed)
    assert not any(command_line(pid) for pid in pids)
    assert len(daemons_in(other)) == 1
    finish(running, job)
    # Those of the other pod have their outputs.
    assert sorted(set(gates.map_runs(MAPS))) == [1, 2]


def remote(kubernetes, gates, spark, **conf) -> Job:
    settings = {"spark.lodestone.mode": "remote", "spark.lodestone.services": SERVICES}
    return job_on(kubernetes, gates, spark, passes=2, **{**settings, **conf})


def assert_all_is_from_services(outcome, gates) -> None:
    assert gates.map_runs(MAPS) == [1] * MAPS
    assert outcome.report["totals"]["remote"] == 1
    assert outcome.report["totals"]["originalsRead"] == 0


@pytest.mark.lines("4.1")
def test_services_of_the_chart_keep_the_outputs_of_a_pod_that_is_killed(
    kubernetes, services, spark, gates, start_job, finish
):
    services.start()
    job = remote(kubernetes, gates, spark)
    running = start_job(job)
    gates.run_first_pass(MAPS)
    kubernetes.kill(executor_pods(kubernetes)[0])
    outcome = finish(running, job)
    assert_all_is_from_services(outcome, gates)
    assert outcome.reasons() == {}
    # Nobody needs them any more: their drains end them.
    for pod in services.end():
        assert pod.story[-1] == ("exit", 0), pod.story
        assert "drained: nothing is held any more" in pod.log.read_text()


@pytest.mark.lines("4.1")
def test_a_rolling_update_while_maps_push_and_readers_read_costs_no_map_run(
    kubernetes, services, spark, gates, start_job, finish
):
    before = services.start()
    # Clients wait six times as long for a service that comes back.
    job = remote(kubernetes, gates, spark, **{"spark.lodestone.request.timeout": "5s"})
    running = start_job(job)
    gates.run_maps(2)
    # Maps make and push rows, and readers read their next partitions, while a service is away.
    between = services.update(*two_at_a_time(gates, "map", 2))
    reduces = [f"reduce-{number}" for number in range(PARTITIONS)]
    gates.open_all(but=(*reduces, "between-0"))
    after = services.update(*two_at_a_time(gates, "reduce", 0))
    outcome = finish(running, job)
    assert gates.map_runs(MAPS) == [1] * MAPS
    assert outcome.reasons() == {}
    assert outcome.report["totals"]["originalsRead"] == 0
    for old, new in zip([*before, *between], [*between, *after], strict=True):
        assert old.address != new.address
        # The drain gave up, because the job needs the data, and the daemon handed it over.
        assert old.story == [("hook", False), ("signal", "SIGTERM"), ("exit", 0)]


@pytest.mark.seldom
@pytest.mark.lines("4.1")
def test_a_rolling_update_costs_queries_no_map_run(
    kubernetes, manifest, spark, gates, start_job, finish
):
    usual = manifest_of("usual")["spec"]
    manifest["spec"]["minReadySeconds"] = usual["minReadySeconds"]
    services = kubernetes.stateful_set(manifest)
    before = services.start()
    conf = {"spark.lodestone.services": SERVICES, **IN_TURNS}
    arguments = arguments_of(gates)
    job = Job("shipments_in_turns", arguments, **in_pods(kubernetes, spark, conf))
    running = start_job(job)
    wait_for_a_turn(gates)
    after = services.update()
    outcome = finish(running, job)
    assert_no_task_ran_again(outcome)
    for old, new in zip(before, after, strict=True):
        assert old.address != new.address
        # The queries need its data, so the daemon handed it over.
        assert old.story == [("hook", False), ("signal", "SIGTERM"), ("exit", 0)]
        assert "taken over from the daemon before" in new.log.read_text()


def two_at_a_time(gates, stage: str, first: int) -> tuple[Callable, Callable]:
    """Returns what waits until the next two tasks are at their gates, and what opens these."""
    waits, opens = (itertools.count(first) for _ in range(2))

    def pair(numbers) -> list[str]:
        return [f"{stage}-{next(numbers)}" for _ in range(2)]

    def wait() -> None:
        for name in pair(waits):
            gates.wait_reached(name)

    return wait, lambda: gates.open(*pair(opens))


@pytest.mark.seldom
@pytest.mark.lines("4.1")
def test_in_cluster_mode_services_keep_the_outputs_of_a_killed_pod_through_an_update(
    kubernetes, services, spark, gates, submit, finish
):
    services.start()
    job = remote(kubernetes, gates, spark)
    running = submit(job)
    gates.run_first_pass(MAPS)
    kubernetes.kill(executor_pods(kubernetes)[0])
    services.update()
    outcome = finish(running, job)
    assert_all_is_from_services(outcome, gates)
    assert outcome.reasons() == {}


@pytest.mark.seldom
@pytest.mark.lines("4.1")
def test_a_service_that_comes_back_with_another_address_is_another_one_for_a_name_of_all(
    kubernetes, manifest, spark, gates, start_job, finish
):
    manifest["spec"]["replicas"] = 1
    services = kubernetes.stateful_set(manifest)
    [service] = services.start()
    conf = {
        "spark.lodestone.services": "dns:lodestone.shuffle.svc:7337",
        "spark.lodestone.request.timeout": "500ms",
    }
    job = remote(kubernetes, gates, spark, **conf)
    running = start_job(job)
    gates.run_first_pass(MAPS)
    back = services.replace(0)
    assert back.address != service.address
    outcome = finish(running, job)
    lost = f"at {service.address}:7337: all of its maps are run again"
    assert "has lost map outputs" in outcome.log and lost in outcome.log
    # A list of names avoids this, and so does a DaemonSet with the addresses of its nodes.
    assert gates.map_runs(MAPS) == [2] * MAPS


@pytest.mark.seldom
@pytest.mark.lines("4.1")
def test_a_service_of_a_node_that_is_updated_keeps_the_outputs_of_a_job(
    kubernetes, spark, gates, start_job, finish, tmp_path
):
    manifest = with_directories(manifest_of("nodes", "DaemonSet"), tmp_path)
    # Pods without this name are found through the endpoints of the service, which nobody makes.
    manifest["spec"]["template"]["spec"]["subdomain"] = "lodestone"
    service = kubernetes.daemon_set(manifest)
    before = service.start()
    names = {"spark.lodestone.services": "dns:lodestone.shuffle.svc:7337"}
    job = remote(kubernetes, gates, spark, **names)
    running = start_job(job)
    gates.run_first_pass(MAPS)
    after = service.replace()
    assert before.uid != after.uid
    outcome = finish(running, job)
    assert gates.map_runs(MAPS) == [1] * MAPS
    assert outcome.reasons() == {}


@pytest.mark.seldom
@pytest.mark.lines("4.1")
def test_a_volume_whose_modes_kubernetes_changes_at_each_start_loses_remote_shuffles(
    kubernetes, manifest, spark, gates, start_job, finish
):
    del manifest["spec"]["template"]["spec"]["securityContext"]["fsGroupChangePolicy"]
    services = kubernetes.stateful_set(manifest)
    services.start()
    job = remote(kubernetes, gates, spark)
    running = start_job(job)
    gates.run_first_pass(MAPS)
    for pod in services.update():
        assert "remote shuffles are lost" in pod.log.read_text()
    finish(running, job)
    # What the chart sets avoids this.
    assert gates.map_runs(MAPS) == [2] * MAPS


@pytest.mark.lines("4.1")
def test_services_with_a_mounted_secret_serve_applications_that_have_it(
    kubernetes, spark, gates, start_job, finish, tmp_path
):
    file = tmp_path / "secret"
    file.write_bytes(b"32 bytes that nobody has guessed")
    give_secret(kubernetes, "lodestone-secrets", default=base64.b64encode(file.read_bytes()))
    services = kubernetes.stateful_set(manifest_of("secrets"))
    pods = services.start()
    names = [f"lodestone-{i}.lodestone.shuffle.svc:7337" for i in range(3)]
    conf = {
        "spark.lodestone.services": ",".join(names),
        "spark.authenticate": "true",
        "spark.authenticate.secret.file": str(file),
        # Executors of Spark 4.1 do not read the file, because they do not know their master yet.
        "spark.kubernetes.executor.secretKeyRef._SPARK_AUTH_SECRET": "lodestone-secrets:default",
        "spark.network.crypto.enabled": "true",
    }
    job = remote(kubernetes, gates, spark, **conf)
    running = start_job(job)
    gates.run_first_pass(MAPS)
    # The driver has the bytes of the file, and executors their Base64, as the variable from the
    # Secret. Services have a file.
    secrets = [file.read_text(), base64.b64encode(file.read_bytes()).decode()]
    executors = executor_pods(kubernetes)
    here = descendants(os.getpid())
    assert {pod.pid for pod in [*pods, *executors]} <= set(here)
    assert_kept(*secrets, pids=here)
    outcome = finish(running, job)
    logs = [pod.log.read_text(errors="replace") for pod in [*pods, *executors]]
    assert all(logs)
    assert_kept(*secrets, texts=[*logs, outcome.log, outcome.report])
    assert outcome.report["totals"]["remote"] == 1
    assert outcome.report["totals"]["originalsRead"] == 0
    assert outcome.reasons() == {}


@pytest.mark.lines("4.1")
def test_services_with_a_mounted_certificate_serve_applications_over_tls(
    kubernetes, spark, gates, start_job, finish, tmp_path
):
    made = certificate(tmp_path)
    folder = tmp_path / "tls"
    folder.mkdir()
    chain, key = made.cert.rename(folder / "tls.crt"), made.key.rename(folder / "tls.key")
    pair = {path.name: path.read_bytes() for path in (chain, key)}
    give_secret(kubernetes, "lodestone-tls", "kubernetes.io/tls", **pair)
    services = kubernetes.stateful_set(manifest_of("tls"))
    services.start()
    conf = {
        "spark.ssl.rpc.enabled": "true",
        # Otherwise Spark asks for a key store.
        "spark.ssl.rpc.openSslEnabled": "true",
        "spark.ssl.rpc.certChain": str(chain),
        "spark.ssl.rpc.privateKey": str(key),
        # The driver has the files there.
        "spark.kubernetes.executor.secrets.lodestone-tls": str(folder),
    }
    job = remote(kubernetes, gates, spark, **conf)
    outcome = finish(start_job(job), job)
    assert outcome.report["totals"]["remote"] == 1
    assert outcome.report["totals"]["originalsRead"] == 0
    assert outcome.reasons() == {}


def give_secret(kubernetes, name: str, kind: str = "Opaque", **data: bytes) -> None:
    """Makes a Secret for the services, and one for executors."""
    encoded = {key: base64.b64encode(value).decode() for key, value in data.items()}
    for namespace in ("shuffle", "jobs"):
        metadata = {"name": name, "namespace": namespace}
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": kind}
        kubernetes.apply(secret | {"data": encoded})
