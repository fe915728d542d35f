"""The programs of the how-to pages run on a broker, as they are printed."""

from __future__ import annotations

import json
import logging
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.request import urlopen

import pytest
import yaml

import kstreamnb as ks
from kstreamnb.kafka.admin import Admin
from kstreamnb.kafka.broker_process import local_broker
from kstreamnb.spark.state.checkpoint_manifest import read_manifest
from tests import howto
from tests.kafka.apps import PATIENCE_S, START_MS

pytestmark = [pytest.mark.kafka, pytest.mark.spark]
WAIT = {"query.await_termination()": f"query.await_input({PATIENCE_S})"}
"""A program that runs until it is stopped is stopped after its input."""


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    """A separate broker: the names of topics and applications on the pages are common ones."""
    with local_broker() as running:
        yield running.bootstrap_servers


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark: Any) -> Iterator[None]:
    """Relative paths of a page are in the test's folder; queries that it leaves running are stopped, and its logs."""
    monkeypatch.chdir(tmp_path)
    log = logging.getLogger("kstreamnb.query")
    level, handlers = log.level, [*log.handlers]
    yield
    for query in ks.spark.active():
        query.stop()
    for handler in {*log.handlers} - {*handlers}:
        log.removeHandler(handler)
        handler.close()
    log.setLevel(level)


def produce(servers: str, topic: str, values: Mapping[str, Any], partitions: int = 1) -> None:
    """Send a value by key to a topic, which is created if it is missing."""
    Admin(servers).create_topic(topic, partitions=partitions, exists_ok=True)
    records = [ks.TopicRecord(topic, 0, at, START_MS + at, *pair) for at, pair in enumerate(values.items())]
    ks.kafka.produce(servers, records)


def application(monkeypatch: pytest.MonkeyPatch, name: str, id: str, topic: str) -> ks.Topology:
    """Offer a module with a topology that counts orders, as the pages import it."""
    builder = ks.StreamsBuilder(id)
    builder.stream(topic).group_by_key().count(store="counts").to_stream().to(f"{id}-totals")
    made = ModuleType(name)
    made.topology = builder.build()  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, name, made)
    topology: ks.Topology = made.topology  # type: ignore[attr-defined]
    return topology


def test_capture_and_redact(servers: str) -> None:
    """The sample has no cards and no customers' names."""
    produce(servers, "payments", {"ann": {"card": "4111", "amount": 5}})
    Admin(servers).create_topic("counts", partitions=1)
    ks.kafka.produce(servers, [ks.TopicRecord("counts", 0, 0, START_MS, "ann", 1)], value_serde="long")
    replaced = {"localhost:9092": servers, "seconds=30": f"seconds={PATIENCE_S}"}
    found = howto.run("capture", replaced, servers=servers, avro=ks.Serdes.json())
    values = {record.topic: record.value for record in found["sample"]}
    assert {"payments": {"card": "***", "amount": 5}, "counts": 1} == values
    redacted = howto.blocks("capture")[0].splitlines()[0].replace("localhost:9092", servers)
    names: dict[str, Any] = {"ks": ks}
    exec(redacted, names)
    assert [record.value["card"] for record in names["sample"]] == ["***"]
    assert "ann" not in [record.key for record in names["sample"]]


def test_reproduce_a_production_bug(servers: str, tmp_path: Path) -> None:
    """The captured sample is a file without cards."""
    produce(servers, "movements", {"shoe": {"card": "4111", "change": 5}})
    howto.run("production-bug", {}, servers=servers)
    kept = ks.Sample.from_parquet(tmp_path / "movements.parquet")
    assert [record.value for record in kept] == [{"card": "***", "change": 5}]


def test_from_json_to_an_alert(servers: str, tmp_path: Path) -> None:
    """Three hot readings within a minute become one alert, on the broker as in the replay."""
    Admin(servers).create_topic("readings", partitions=4)
    hot = [ks.TopicRecord("readings", 0, at, START_MS + 20_000 * at, "oven", {"celsius": 90}) for at in range(3)]
    ks.kafka.produce(servers, hot)
    howto.run("json-to-alert", {"localhost:9092": servers, "checkpoints/": f"{tmp_path}/", **WAIT})
    (alert,) = ks.Sample.capture(servers, "alerts", seconds=PATIENCE_S)
    assert (alert.key, alert.value) == ("oven", {"above": 80, "times": 3})


def test_deploy_to_spark(servers: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The query counts the order, on a broker of the page and on the cluster; the data is where the page says."""
    produce(servers, "orders", {"shoe": 1})
    names = howto.run("deploy", {"broker-1:9092,broker-2:9092": servers, "/data/checkpoints": str(tmp_path)})
    names["broker"].stop()
    assert capsys.readouterr().out.startswith("1\n")
    assert (tmp_path / "kafka-data" / "broker.log").exists()
    assert names["query"].store("counts")["shoe"] == 1
    assert (tmp_path / "shop" / "metadata").exists()


def test_monitor_a_query(servers: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Metrics, stores and the log of the query can be read."""
    topology = application(monkeypatch, "application", "monitored", "monitored-orders")
    produce(servers, "monitored-orders", {"shoe": 1})
    query = ks.deploy(topology, bootstrap_servers=servers, checkpoint=tmp_path / "monitored")
    query.await_input(PATIENCE_S)
    names = howto.run("monitor", {"port=9404": "port=0", "port=8080": "port=0"}, ks=ks, query=query)
    assert "kafka_streams" in urlopen(names["server"].url).read().decode()
    assert json.loads(urlopen(names["service"].url + "/stores/counts/shoe").read())["value"] == 1
    names["service"].close()
    query.stop()
    assert "monitored" in (tmp_path / "queries.jsonl").read_text()


def test_run_as_a_service(servers: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The program reads a settings file, and its query is healthy, counted and logged."""
    application(monkeypatch, "shop", "serviced", "serviced-orders")
    produce(servers, "serviced-orders", {"shoe": 1})
    (tmp_path / "application.properties").write_text("application.id=from-file\n")
    (tmp_path / "client.properties").write_text("security.protocol=PLAINTEXT\n")
    own = "application.properties", "client.properties", "queries.jsonl", "checkpoints/"
    files = {f'"{name}': f'"{tmp_path}/{name}' for name in own}
    places = {"localhost:9092": servers, "port=8080": "port=0", "port=9404": "port=0", **files}
    names = howto.run("service", {**places, **WAIT})
    assert names["query"].application == "from-file"
    assert names["query"].store("counts")["shoe"] == 1
    assert "from-file" in (tmp_path / "queries.jsonl").read_text()
    names["query"].stop()


def test_run_in_a_container(servers: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The program listens at the ports of the manifest, and keeps its checkpoint on the manifest's volume."""
    (manifest,) = howto.blocks("kubernetes", "yaml")
    (program,) = howto.blocks("kubernetes")
    (container,) = yaml.safe_load(manifest)["spec"]["template"]["spec"]["containers"]
    assert [f"port={each['containerPort']}" in program for each in container["ports"]] == [True, True]
    assert container["readinessProbe"]["httpGet"]["path"] in program
    assert f'checkpoint="{container["volumeMounts"][0]["mountPath"]}/' in program
    application(monkeypatch, "shop", "contained", "contained-orders")
    produce(servers, "contained-orders", {"shoe": 1})
    places = {"kafka:9092": servers, "/data/checkpoints": str(tmp_path), "port=8080": "port=0", "port=9404": "port=0"}
    names = howto.run("kubernetes", {**places, **WAIT})
    assert names["query"].store("counts")["shoe"] == 1


def test_rescale_a_query(servers: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The query has eight state partitions afterwards, and its state."""
    topology = application(monkeypatch, "shop", "rescaled", "rescaled-orders")
    produce(servers, "rescaled-orders", {"shoe": 1})
    query = ks.deploy(topology, bootstrap_servers=servers, checkpoint=tmp_path / "checkpoints" / "shop")
    query.await_input(PATIENCE_S)
    programs = {"ks.deploy(topology": "ks.deploy(deployed", "checkpoints/": f"{tmp_path}/checkpoints/"}
    names = howto.run("rescale", programs, query=query, servers=servers, deployed=topology)
    names["query"].await_input(PATIENCE_S)
    assert names["query"].store("counts")["shoe"] == 1
    manifest = read_manifest(ks.spark.checkpoint_files(tmp_path / "checkpoints" / "shop"))
    assert manifest is not None
    assert manifest.spark_partitions == 8


def test_reset_with_the_command(servers: str) -> None:
    """A dry run names what it would delete, and changes nothing."""
    (command,) = howto.blocks("reprocess", "sh")
    words = shlex.split(command.replace("localhost:9092", servers))
    produce(servers, "paid", {"ann": 5})
    builder = ks.StreamsBuilder("totals")
    builder.stream("paid").group_by_key().count(store="totals").to_stream().to("totals")
    options = {"bootstrap_servers": servers, "checkpoint": words[words.index("--checkpoint") + 1], "changelogs": True}
    assert ks.deploy(builder.build(), available_now=True, **options).await_termination(PATIENCE_S)
    words[0] = str(Path(sys.executable).with_name(words[0]))
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    assert "totals-totals-changelog" in done.stdout, done.stderr
    assert f"delete checkpoint {Path(options['checkpoint']).absolute()}\n" in done.stdout
    assert "totals-totals-changelog" in Admin(servers).topics()


def test_move_an_application_and_back(servers: str, tmp_path: Path) -> None:
    """An application that left what Java's leaves is looked at, adopted and handed over again."""
    produce(servers, "pages", {"home": 1}, partitions=4)
    builder = ks.StreamsBuilder("visits")
    builder.stream("pages").group_by_key().count(store="counts").to_stream().to("totals", value_serde="long")
    options = {"bootstrap_servers": servers, "checkpoint": tmp_path / "before", "changelogs": True}
    ks.deploy(builder.build(), **options).hand_over(PATIENCE_S)
    names = howto.run("java-takeover", {"checkpoints/": f"{tmp_path}/checkpoints/"}, servers=servers)
    assert names["stores"]["counts"]["home"] == 1
    assert names["query"].store("counts")["home"] == 1
