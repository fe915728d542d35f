"""Resources that ``spark-submit --master k8s://…`` sends to Kubernetes, recorded by a server."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.services import spark_jars

pytestmark = pytest.mark.spark
GUIDE = Path(__file__).parents[2] / "notebooks" / "guide" / "howto" / "kubernetes.md"
VERSION = "1.34"


@pytest.fixture
def api() -> Iterator[tuple[str, list[Any]]]:
    """The address of an API server that accepts every resource, and the resources that it was sent."""
    sent: list[Any] = []

    class Accepting(BaseHTTPRequestHandler):
        """Answers with the resource itself."""

        def do_POST(self) -> None:
            """Take a resource down."""
            resource = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            sent.append(json.loads(json.dumps(resource)))
            resource["metadata"] |= {"uid": "1", "namespace": "default"}
            content = json.dumps(resource).encode()
            self.send_response(201)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_PATCH = do_POST

        def log_message(self, format: str, *arguments: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Accepting)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", sent
    server.shutdown()
    thread.join()
    server.server_close()


def test_the_command_of_the_guide_submits_valid_resources(api: tuple[str, list[Any]], tmp_path: Path) -> None:
    """By Kubernetes' own schema; the driver's pod has the image, the program and the volume of the checkpoint."""
    kubernetes_validate = pytest.importorskip("kubernetes_validate")
    address, sent = api
    (command,) = [block for block in GUIDE.read_text().split("```sh\n")[1:] if block.startswith("spark-submit")]
    words = command.split("```")[0].replace("\\\n", " ").replace("https://kubernetes:6443", address).split()
    words[1:1] = ["--conf", "spark.kubernetes.submission.waitAppCompletion=false"]
    home = spark_jars().parent
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK", "SPARK"))}
    environment = {**plain, "SPARK_HOME": str(home), "KUBECONFIG": str(tmp_path / "none")}
    done = subprocess.run(
        [str(home / "bin" / words[0]), *words[1:]],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    for resource in sent:
        kubernetes_validate.validate(resource, VERSION, strict=True)
    assert {"ConfigMap", "Pod", "Service"} <= {resource["kind"] for resource in sent}
    (pod,) = [resource for resource in sent if resource["kind"] == "Pod"]
    (container,) = pod["spec"]["containers"]
    assert container["image"] == "registry.example/shop:1"
    assert "local:///app/application.py" in container["args"]
    assert {"name": "state", "persistentVolumeClaim": {"claimName": "shop-state", "readOnly": False}} in [
        {key: volume[key] for key in ("name", "persistentVolumeClaim") if key in volume}
        for volume in pod["spec"]["volumes"]
    ]
    assert "/data" in [mount["mountPath"] for mount in container["volumeMounts"]]
