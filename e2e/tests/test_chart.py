# SPDX-License-Identifier: Apache-2.0
"""The Helm chart. `deploy/helm/rendered` has what Helm makes of each file in `deploy/helm/values`;
these tests look at that. The tests with Helm itself run with --all-lines."""

import json
import shutil
from pathlib import Path

import kubernetes_validate
import pytest
import yaml

from harness.helm import CHART, RENDERED, VALUES, helm, rendering, template

NAMES = sorted(path.stem for path in VALUES.glob("*.yaml"))
KUBERNETES = ["1.29", "1.37"]
# A definition of a custom resource describes it, and Kubernetes itself does not.
CUSTOM = {"PodMonitor"}


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
    fraction = 4 if memory < 512 else 8
    resources = container["resources"]
    assert mebibytes(resources["limits"]["memory"]) == memory + memory // fraction
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


def test_the_schema_describes_every_value_of_the_chart():
    schema = json.loads((CHART / "values.schema.json").read_text())
    values = yaml.safe_load((CHART / "values.yaml").read_text())

    def assert_described(part: dict, described: dict, path: str) -> None:
        for key, value in part.items():
            assert key in described["properties"], f"{path}{key} is not in the schema"
            below = described["properties"][key]
            if isinstance(value, dict) and "properties" in below:
                assert_described(value, below, f"{path}{key}.")

    assert_described(values, schema, "")


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
        ("kind=Deployment", "kind"),
        ("kind=DaemonSet", "hostPaths"),
        ("secrets.encryptedOnly=true", "existingSecret"),
        ("user=65534", "user"),
        ("image.repository=", "image.repository"),
    ],
)
def test_a_wrong_value_stops_the_installation_and_the_error_names_it(setting, words):
    said = template("--set", "image.repository=example/lodestone", "--set", setting)
    assert said.returncode != 0 and words in said.stderr, said.stdout + said.stderr


@pytest.mark.seldom
def test_the_notes_name_every_service_as_an_application_must(tmp_path):
    chart = tmp_path / "lodestone"
    shutil.copytree(CHART, chart)
    # Without a cluster Helm shows no notes, but objects.
    notes = (chart / "templates" / "NOTES.txt").read_text()
    (chart / "templates" / "_notes.tpl").write_text(f'{{{{ define "n" }}}}{notes}{{{{ end }}}}')
    (chart / "templates" / "notes.yaml").write_text(
        'kind: ConfigMap\nmetadata: {name: notes}\ndata: {notes: {{ include "n" . | quote }}}\n'
    )
    shown = ["--show-only", "templates/notes.yaml", "--values", VALUES / "small.yaml"]
    said = template(*shown, chart=chart)
    names = [f"lodestone-{i}.lodestone.shuffle.svc:7337" for i in range(2)]
    text = yaml.safe_load(said.stdout)["data"]["notes"]
    assert f"  spark.lodestone.services={','.join(names)}\n" in text


def folder(path: Path) -> list[str]:
    return sorted(one.name for one in path.iterdir())


def test_every_file_of_values_is_rendered():
    assert folder(VALUES) == folder(RENDERED)
