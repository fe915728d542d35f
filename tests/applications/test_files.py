"""Each application has the same files, and those for containers are valid by their schemas."""

from __future__ import annotations

import json
import re
import runpy
import shlex
from pathlib import Path
from typing import Any

import pytest

from tests.applications import FOLDER, NAMES

yaml = pytest.importorskip("yaml")
KUBERNETES = "1.34"


def topics(name: str) -> dict[str, int]:
    """Return the topics of an application with their partitions."""
    return dict(runpy.run_path(str(FOLDER / name / "topology.py"))["TOPICS"])


def test_applications_share_no_topic() -> None:
    """All of them can run on one broker."""
    named = [topic for name in NAMES for topic in topics(name)]
    assert len(set(named)) == len(named) > 10


@pytest.mark.parametrize("name", NAMES)
def test_an_application_has_all_its_files_and_stays_small(name: str) -> None:
    """A topology of at most 80 lines, a service, a notebook, deployment files and a README that names each of them."""
    files = {path.name for path in (FOLDER / name).iterdir() if path.is_file()}
    assert files >= {"README.md", "compose.yaml", "kubernetes.yaml", "made.py", "service.py", "topology.py"}
    assert f"{name}.ipynb" in files
    assert len((FOLDER / name / "topology.py").read_text().splitlines()) <= 80
    readme = (FOLDER / name / "README.md").read_text()
    assert len(readme.splitlines()) <= 60
    assert set(re.findall(r"\]\(([a-z.]+)\)", readme)) == files - {"README.md"}


@pytest.mark.parametrize("name", NAMES)
def test_the_commands_of_the_readme_fit_the_files_of_the_deployment(name: str) -> None:
    """The port is that of the Compose file, and the image is the one that the manifest starts."""
    deployment = (FOLDER / name / "README.md").read_text().partition("## Deployment\n")[2].partition("## Tests")[0]
    compose, build, apply = (shlex.split(line, comments=True) for line in re.findall(r"(?m)^[dk]\w+ .+$", deployment))
    root, here = FOLDER.parents[1], FOLDER / name
    assert (compose[:2], root / compose[3], compose[4:]) == (
        ["docker", "compose"],
        here / "compose.yaml",
        ["up", "--build"],
    )
    assert (apply[:2], root / apply[3]) == (["kubectl", "apply"], here / "kubernetes.yaml")
    resources = list(yaml.safe_load_all((here / "kubernetes.yaml").read_text()))
    pods = [resource["spec"]["template"]["spec"] for resource in resources if resource["kind"] == "Deployment"]
    assert {container["image"] for pod in pods for container in pod["containers"]} == {build[build.index("--tag") + 1]}
    assert f"NAME={name}" in build
    assert "ARG NAME\n" in (root / build[-1] / "Dockerfile").read_text()
    ports = yaml.safe_load((here / "compose.yaml").read_text())["services"]["application"]["ports"]
    assert [port.split(":")[1] for port in ports] == re.findall(r"http://localhost:(\d+)/", deployment)


@pytest.mark.parametrize("name", NAMES)
def test_the_compose_file_is_valid(name: str) -> None:
    """By the schema of the Compose specification; its topics are those of the topology, with a volume for the state."""
    check_jsonschema = pytest.importorskip("check_jsonschema")
    from jsonschema import Draft7Validator

    schemas = Path(check_jsonschema.__file__).parent / "builtin_schemas" / "vendor"
    compose = yaml.safe_load((FOLDER / name / "compose.yaml").read_text())
    schema = Draft7Validator(json.loads((schemas / "compose-spec.json").read_text()))
    assert [error.message for error in schema.iter_errors(compose)] == []
    assert list(schema.iter_errors({**compose, "service": {}})), "the schema refuses what it does not know"
    services = compose["services"]
    created = re.search(r"for topic in (.+?); do", services["topics"]["command"][-1])
    assert created is not None
    assert set(created[1].split()) == set(topics(name))
    assert services["application"]["build"]["args"] == {"NAME": name}
    assert "state:/data" in services["application"]["volumes"]
    ports = [port for service in services.values() for port in service.get("ports", ())]
    assert all(port.startswith("127.0.0.1:") for port in ports), "nothing here has a sign-in"
    named = {volume.partition(":")[0] for each in services.values() for volume in each.get("volumes", ())}
    assert named == set(compose["volumes"])


@pytest.mark.parametrize("name", NAMES)
def test_the_kubernetes_manifest_is_valid(name: str) -> None:
    """By Kubernetes' own schema, strictly; one replica, probes of /health, and a claim for the checkpoint."""
    kubernetes_validate = pytest.importorskip("kubernetes_validate")
    resources = list(yaml.safe_load_all((FOLDER / name / "kubernetes.yaml").read_text()))
    for resource in resources:
        kubernetes_validate.validate(resource, KUBERNETES, strict=True)
    found: dict[str, Any] = {resource["kind"]: resource for resource in resources}
    deployment = found["Deployment"]["spec"]
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(
            {**found["Deployment"], "spec": {**deployment, "replica": 2}}, KUBERNETES, strict=True
        )
    assert (deployment["replicas"], deployment["strategy"]["type"]) == (1, "Recreate")
    pod = deployment["template"]["spec"]
    (container,) = pod["containers"]
    assert {container[f"{kind}Probe"]["httpGet"]["path"] for kind in ("readiness", "liveness")} == {"/health"}
    claims = [volume["persistentVolumeClaim"]["claimName"] for volume in pod["volumes"]]
    assert claims == [found["PersistentVolumeClaim"]["metadata"]["name"]]
    assert found["Service"]["spec"]["selector"] == deployment["template"]["metadata"]["labels"]
