# SPDX-License-Identifier: Apache-2.0
"""The Helm chart. `deploy/helm/rendered` has what Helm makes of each file in `deploy/helm/values`;
these tests look at that. The tests with Helm itself run with --all-lines."""

import base64
import json
import shutil
import subprocess
from pathlib import Path

import kubernetes_validate
import pytest
import yaml

from harness.helm import CHART, RENDERED, VALUES, helm, of_sources, rendering, template
from harness.leaks import is_in
from harness.paths import ROOT

NAMES = sorted(path.stem for path in VALUES.glob("*.yaml"))
KUBERNETES = ["1.29", "1.37"]
# A definition of a custom resource describes it, and Kubernetes itself does not.
CUSTOM = {"PodMonitor", "PrometheusRule"}


def rendered(name: str) -> dict[str, dict]:
    """Returns what Helm made of values, by kind."""
    documents = list(yaml.safe_load_all((RENDERED / f"{name}.yaml").read_text()))
    kinds = {document["kind"]: document for document in documents if document}
    assert len(kinds) == len([document for document in documents if document])
    return kinds


def workload_of(name: str) -> dict:
    kinds = rendered(name)
    return kinds.get("StatefulSet") or kinds["DaemonSet"]


def container_of(name: str) -> dict:
    [container] = workload_of(name)["spec"]["template"]["spec"]["containers"]
    return container


@pytest.mark.parametrize("version", KUBERNETES)
@pytest.mark.parametrize("name", NAMES)
def test_kubernetes_accepts_every_field_of_the_chart(name, version):
    for kind, document in rendered(name).items():
        if kind not in CUSTOM:
            kubernetes_validate.validate(document, version, strict=True)


def mebibytes(size: str) -> int:
    return int(size.removesuffix("Mi"))


@pytest.mark.parametrize("name", NAMES)
def test_a_container_has_the_memory_that_the_daemon_needs_beside_its_own(name):
    container = container_of(name)
    [flag] = [word for word in container["args"] if word.startswith("--memory=")]
    memory = int(flag.removeprefix("--memory=").removesuffix("MiB"))
    beside = max(192, memory // 8)
    flags = {word.partition("=")[0] for word in container["args"]}
    # Each connection may encrypt.
    beside += 4096 * max(64 * ("--secrets" in flags), 144 * ("--tls-cert" in flags)) // 1024
    resources = container["resources"]
    assert mebibytes(resources["limits"]["memory"]) == memory + beside
    assert resources["requests"]["memory"] == resources["limits"]["memory"]


@pytest.mark.parametrize("name", NAMES)
def test_a_pod_has_the_time_to_drain_and_to_write_its_memory_out(name):
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    values |= yaml.safe_load((VALUES / f"{name}.yaml").read_text())
    speed = values["storage"].get("writeSpeed", 100)
    container = container_of(name)
    [flag] = [word for word in container["args"] if word.startswith("--memory=")]
    memory = int(flag.removeprefix("--memory=").removesuffix("MiB"))
    drain = container["lifecycle"]["preStop"]["exec"]["command"]
    assert drain == ["/lodestone", "drain", f"--timeout={values['drainSeconds']}s"]
    grace = workload_of(name)["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]
    assert grace == values["drainSeconds"] + max(360, 2 * (memory * 17 // 32) // speed)


@pytest.mark.parametrize("name", NAMES)
def test_a_pod_has_no_rights_that_the_daemon_does_not_need(name):
    pod = workload_of(name)["spec"]["template"]["spec"]
    security = pod["securityContext"]
    # Helm has numbers of its own, and writes large ones as 1e+09, which Kubernetes refuses.
    assert type(security["runAsUser"]) is type(security["fsGroup"]) is int
    assert security["runAsNonRoot"] and security["runAsUser"] not in (0, 65534)
    assert security["fsGroupChangePolicy"] == "OnRootMismatch"
    assert pod["automountServiceAccountToken"] is False
    assert container_of(name)["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


@pytest.mark.parametrize("name", NAMES)
def test_no_pod_of_another_namespace_reaches_a_service_unless_the_values_name_it(name):
    values = yaml.safe_load((VALUES / f"{name}.yaml").read_text()).get("networkPolicy", {})
    policy = rendered(name)["NetworkPolicy"]["spec"]
    assert policy["policyTypes"] == ["Ingress", "Egress"] and "egress" not in policy
    by_port = {rule["ports"][0]["port"]: rule["from"] for rule in policy["ingress"]}
    assert by_port.pop(7337) == values.get("clients", [{"podSelector": {}}])
    assert by_port == ({7338: values["monitoring"]} if "monitoring" in values else {})


@pytest.mark.parametrize("name", NAMES)
def test_a_service_that_is_not_ready_is_still_found_by_its_name(name):
    kinds = rendered(name)
    service, workload = kinds["Service"]["spec"], workload_of(name)
    assert service["clusterIP"] == "None" and service["publishNotReadyAddresses"] is True
    labels = workload["spec"]["template"]["metadata"]["labels"]
    for selector in (service["selector"], workload["spec"]["selector"]["matchLabels"]):
        assert selector.items() <= labels.items()
    if workload["kind"] == "StatefulSet":
        assert workload["spec"]["serviceName"] == kinds["Service"]["metadata"]["name"]
        assert kinds["PodDisruptionBudget"]["spec"]["maxUnavailable"] == 1


def test_a_service_with_secrets_reads_them_from_a_mounted_secret():
    container, pod = container_of("secrets"), workload_of("secrets")["spec"]["template"]["spec"]
    assert {"--secrets=/secrets", "--encrypted-only"} <= set(container["args"])
    [volume] = [volume for volume in pod["volumes"] if "secret" in volume]
    assert volume["secret"] == {"secretName": "lodestone-secrets", "defaultMode": 0o440}


def test_a_service_with_tls_reads_its_certificate_from_a_mounted_secret():
    container, pod = container_of("tls"), workload_of("tls")["spec"]["template"]["spec"]
    flags = {"--tls-cert=/tls/tls.crt", "--tls-key=/tls/tls.key", "--encrypted-only"}
    assert flags <= set(container["args"])
    [volume] = [volume for volume in pod["volumes"] if "secret" in volume]
    # Nobody else in the container reads the key, and nothing else of the Secret is there.
    items = [{"key": name, "path": name} for name in ("tls.crt", "tls.key")]
    assert volume["secret"] == {
        "secretName": "lodestone-tls", "defaultMode": 0o440, "items": items
    }  # fmt: skip
    [mount] = [mount for mount in container["volumeMounts"] if mount["name"] == volume["name"]]
    assert mount["mountPath"] == "/tls" and mount["readOnly"]


def test_the_alerts_of_the_chart_are_those_of_the_file_for_prometheus():
    rules = (ROOT / "deploy" / "prometheus" / "rules.yaml").read_text()
    assert rendered("large")["PrometheusRule"]["spec"] == yaml.safe_load(rules)


def test_the_schema_describes_every_value_of_the_chart():
    schema = json.loads((CHART / "values.schema.json").read_text())
    values = yaml.safe_load((CHART / "values.yaml").read_text())

    def assert_described(part: dict, described: dict, path: str) -> None:
        for key, value in part.items():
            assert key in described["properties"], f"{path}{key} is not in the schema"
            assert key in described["required"], f"{path}{key} may be null"
            below = described["properties"][key]
            if isinstance(value, dict) and "properties" in below:
                assert_described(value, below, f"{path}{key}.")

    assert_described(values, schema, "")


@pytest.mark.parametrize("name", NAMES)
def test_what_these_tests_look_at_was_made_from_the_chart_as_it_is_now(name):
    made_from = (RENDERED / f"{name}.yaml").read_text().splitlines()[1]
    again = "run `PYTHONPATH=e2e python3 -m harness.helm`, and look at what changed"
    assert made_from == of_sources(name), again


@pytest.mark.seldom
@pytest.mark.parametrize("name", NAMES)
def test_helm_makes_of_the_values_what_the_other_tests_have_looked_at(name):
    documents = [document for document in yaml.safe_load_all(rendering(name)) if document]
    assert {document["kind"]: document for document in documents} == rendered(name)


@pytest.mark.seldom
@pytest.mark.parametrize("name", NAMES)
def test_helm_finds_no_fault_in_the_chart(name):
    said = helm("lint", "--strict", CHART, "--values", VALUES / f"{name}.yaml")
    assert said.returncode == 0, said.stdout + said.stderr


@pytest.mark.seldom
@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("memory=8g", "memory"),
        ("memroy=8Gi", "memroy"),
        ("tls=null", "tls"),
        ("tls.existingSecret=null", "existingSecret"),
        ("tls.existingSecret=lodestone_tls", "existingSecret"),
        ("kind=Deployment", "kind"),
        ("kind=DaemonSet", "hostPaths"),
        ("encryptedOnly=true", "existingSecret"),
        ("user=65534", "user"),
        ("memory=63Mi", "memory"),
        ("image.digest=sha256:1", "digest"),
        ("hostNetwork=true", "kind"),
        ("podMonitor.enabled=true", "monitoring"),
        ("zone.fromNode=true,zone.name=a", "zone"),
        (
            "networkPolicy.monitoring[0].ipBlock.a=b,networkPolicy.monitoring[0].podSelector.a=b",
            "monitoring",
        ),
        ("image.repository=", "image.repository"),
        # The daemon would not start with a flag that it gets twice.
        ("extraArgs[0]=--admin=127.0.0.1:7338", "--admin"),
        ("extraArgs[0]=--quota=50%,extraArgs[1]=--encrypted-only", "encryptedOnly"),
    ],
)
def test_a_wrong_value_stops_the_installation_and_the_error_names_it(setting, words):
    said = template("--set", "image.repository=example/lodestone", "--set", setting)
    assert said.returncode != 0 and words in said.stderr, said.stdout + said.stderr


@pytest.mark.seldom
def test_a_chart_that_has_this_one_as_a_part_may_switch_it_on():
    said = template("--set", "image.repository=example/lodestone", "--set", "enabled=true")
    assert said.returncode == 0, said.stderr


@pytest.mark.seldom
def test_releases_whose_long_names_begin_alike_do_not_share_a_name():
    alike = "a-name-of-a-release-that-has-as-many-letters-as-may-b"
    names = {name_in(template("--set", "image.repository=a", release=alike[:-1] + c)) for c in "bc"}
    assert len(names) == 2 and all(len(name) <= 52 for name in names)
    # A service has a name in DNS, and the API server would refuse this one.
    for wrong in ("1st", "a.b"):
        said = template("--set", "image.repository=a", release=wrong)
        assert said.returncode != 0 and "begin with a letter" in said.stderr


def name_in(said) -> str:
    assert said.returncode == 0, said.stderr
    documents = list(filter(None, yaml.safe_load_all(said.stdout)))
    [name] = {document["metadata"]["name"] for document in documents}
    return name


@pytest.fixture
def notes_for(tmp_path):
    """Returns the notes for a file of values."""
    chart = tmp_path / "lodestone"
    shutil.copytree(CHART, chart)
    # Without a cluster Helm shows no notes, but objects.
    notes = (chart / "templates" / "NOTES.txt").read_text()
    (chart / "templates" / "_notes.tpl").write_text(f'{{{{ define "n" }}}}{notes}{{{{ end }}}}')
    (chart / "templates" / "notes.yaml").write_text(
        'kind: ConfigMap\nmetadata: {name: notes}\ndata: {notes: {{ include "n" . | quote }}}\n'
    )

    def noted(name: str, *more: object) -> str:
        shown = ["--show-only", "templates/notes.yaml", "--values", VALUES / f"{name}.yaml"]
        said = template(*shown, *more, chart=chart)
        assert said.returncode == 0, said.stderr
        return yaml.safe_load(said.stdout)["data"]["notes"]

    return noted


@pytest.mark.seldom
def test_the_notes_name_every_service_as_an_application_must(notes_for):
    text = notes_for("small")
    names = [f"lodestone-{i}.lodestone.shuffle.svc:7337" for i in range(2)]
    assert f"  spark.lodestone.services={','.join(names)}\n" in text
    assert text.startswith("The image lodestone:0.1.0 runs as StatefulSet shuffle/lodestone.\n")


@pytest.mark.seldom
def test_the_notes_name_the_keys_of_an_application_that_encrypts(notes_for):
    tls, secrets = notes_for("tls"), notes_for("secrets")
    both = notes_for("secrets", "--set", "tls.existingSecret=lodestone-tls")
    for text in (tls, both):
        assert "  spark.ssl.rpc.enabled=true\n" in text
        assert "  spark.ssl.rpc.openSslEnabled=true\n" in text
        assert "  spark.ssl.rpc.certChain=/tls/tls.crt\n" in text
        assert "  spark.kubernetes.executor.secrets.SECRET-OF-THE-APPLICATIONS=/tls\n" in text
    # Nothing is encrypted twice.
    assert "crypto" not in tls + both and "  spark.network.crypto.enabled=true\n" in secrets
    assert "spark.authenticate=true" in both and "spark.authenticate" not in tls
    assert "no secrets: every client" in tls and "spark.ssl" not in secrets


@pytest.mark.seldom
def test_the_notes_say_when_an_upgrade_loses_the_data_of_nodes(notes_for):
    warning = "lose the remote shuffles of its service"
    assert warning not in notes_for("nodes") and warning not in notes_for("small")
    assert warning in notes_for("nodes", "--set", "hostNetwork=false")


@pytest.mark.seldom
def test_the_notes_say_who_reaches_the_admin_endpoint_on_the_network_of_a_node(notes_for):
    says = "Port 7338 (metrics, state) answers on the node itself only"
    opened = ["--set", "networkPolicy.monitoring[0].podSelector.a=b"]
    assert says in notes_for("nodes") and says not in notes_for("nodes", *opened)
    assert says not in notes_for("small")


@pytest.mark.seldom
def test_the_secret_that_the_notes_make_has_what_the_driver_reads(notes_for, tmp_path):
    """Runs the command of the notes with a kubectl that prints its arguments, which every user of
    the host can see, and what it reads."""
    commands = notes_for("secrets").partition("from a Secret:\n\n")[2].partition("\n\n")[0]
    (tmp_path / "kubectl").write_text('#!/bin/sh\nprintf "%s\\n" "$@" "read: $(cat)"\n')
    (tmp_path / "kubectl").chmod(0o755)
    secret = b"32 bytes that nobody has guessed"
    (tmp_path / "FILE-OF-THE-DRIVER").write_bytes(secret)
    path = f"{tmp_path}:/usr/bin:/bin"
    said = subprocess.run(
        ["sh", "-ec", commands], cwd=tmp_path, env={"PATH": path}, capture_output=True, text=True
    )
    words = said.stdout.splitlines()
    assert said.returncode == 0 and words[3] == "lodestone-secrets", said.stderr
    read = [word for word in words if word.startswith("read: ")]
    assert read == [f"read: {base64.b64encode(secret).decode()}"] * 2
    arguments = [word for word in words if word not in read]
    assert arguments.count("--from-file=default=/dev/stdin") == 2
    assert not is_in("\n".join(arguments), secret.decode())
    assert {"shuffle", "NAMESPACE-OF-THE-EXECUTORS"} < set(arguments)


def admin_of(workload: dict) -> tuple[str, str | None]:
    """Returns where the admin endpoint listens, and where the probe of the node looks for it."""
    [container] = workload["spec"]["template"]["spec"]["containers"]
    [flag] = [word for word in container["args"] if word.startswith("--admin=")]
    probed = container["readinessProbe"]["httpGet"].get("host")
    return flag.removeprefix("--admin="), probed


def test_on_the_network_of_a_node_only_the_node_itself_reaches_the_admin_endpoint():
    assert admin_of(workload_of("nodes")) == ("127.0.0.1:7338", "127.0.0.1")
    # On the address of a pod, where the node's probe comes from elsewhere.
    assert admin_of(workload_of("small")) == ("0.0.0.0:7338", None)


@pytest.mark.seldom
@pytest.mark.parametrize(
    "value",
    [
        "podMonitor.enabled=true,networkPolicy.enabled=false",
        "networkPolicy.monitoring[0].podSelector.a=b",
    ],
)
def test_with_monitoring_the_admin_endpoint_of_a_node_can_be_reached(value):
    options = ["--show-only", "templates/workload.yaml", "--values", VALUES / "nodes.yaml"]
    said = template(*options, "--set", value)
    assert said.returncode == 0, said.stderr
    assert admin_of(yaml.safe_load(said.stdout)) == ("0.0.0.0:7338", None)


def folder(path: Path) -> list[str]:
    return sorted(one.name for one in path.iterdir())


def test_every_file_of_values_is_rendered():
    assert folder(VALUES) == folder(RENDERED)
