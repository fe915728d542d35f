"""The programs of the how-to pages on clusters and object stores, as they are printed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import kstreamnb as ks
from kstreamnb.kafka.admin import Admin
from kstreamnb.kafka.broker_process import LocalBroker
from tests import howto
from tests.cluster.deployments import SETTINGS
from tests.cluster.services import BUCKET, Hdfs, Standalone
from tests.kafka.apps import PATIENCE_S, START_MS

pytestmark = [pytest.mark.spark, pytest.mark.kafka]


@pytest.fixture(autouse=True)
def stopped() -> Iterator[None]:
    """No query, session or JVM is left: the next session starts another JVM, with other settings."""
    yield
    ks.spark.stop_all()
    session = ks.spark.spark_session()
    process = session.sparkContext._gateway.proc
    session.stop()
    process.stdin.close()  # pyspark's JVM ends with its input
    process.wait(PATIENCE_S)


def produce(servers: str, topic: str) -> None:
    """Send an order."""
    Admin(servers).create_topic(topic)
    ks.kafka.produce(servers, [ks.TopicRecord(topic, 0, 0, START_MS, "1", {"product": "shoe"})])


def test_run_on_a_cluster(
    cluster: Standalone,
    hadoop: Hdfs,
    broker: LocalBroker,
    python: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Executors without the kit get it; the checkpoint is on HDFS."""
    (tmp_path / "prices.py").write_text("SHOE = 5\n")
    monkeypatch.syspath_prepend(tmp_path)
    produce(broker.bootstrap_servers, "orders")
    places = {
        "spark://master:7077": cluster.url,
        "hdfs://namenode:8020": hadoop.url,
        "broker-1:9092": broker.bootstrap_servers,
        'profile="production"': "settings=sizes",
        "query.await_termination()": f"query.await_input({PATIENCE_S})",
    }
    sizes = {**SETTINGS, "spark.pyspark.python": str(python)}
    names = howto.run("cluster", places, sizes=sizes)
    assert names["query"].store("counts")["shoe"] == 1
    assert names["query"].checkpoint == f"{hadoop.url}/checkpoints/shop"


def test_keep_checkpoints_in_an_object_store(
    s3: dict[str, str], broker: LocalBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sample from the store, a checkpoint in it, and output to it."""
    monkeypatch.chdir(tmp_path)
    spark = ks.spark.spark_session("howto", settings={**s3, "spark.driver.memory": "1g"})
    spark.createDataFrame([("shoe", START_MS)], "id string, at long").write.parquet(f"s3a://{BUCKET}/movements/")
    sample = ks.Sample.from_text("topic | key | value | time \n movements | shoe | 1 | 0")
    servers = broker.bootstrap_servers
    produce(servers, "sales")
    places = {"s3a://bucket": f"s3a://{BUCKET}", '{"spark.jars.packages": "org.apache.hadoop:hadoop-aws:3.5.0"}': "s3"}
    shop, lake = counting("warehouse"), counting("lake")
    given = {"ks": ks, "servers": servers, "spark": spark, "s3": s3}
    names = howto.run("object-storage", places, only=slice(2), sample=sample, topology=shop, **given)
    assert [record.key for record in names["sample"]] == ["shoe"]
    names["query"].await_input(PATIENCE_S)
    assert names["query"].store("counts")["1"] == 1
    names["query"].stop()
    places = {"s3a://bucket": f"s3a://{BUCKET}", "/data/checkpoints": str(tmp_path)}
    names = howto.run("object-storage", places, only=slice(2, None), topology=lake, **given)
    names["query"].await_input(PATIENCE_S)
    written = spark.read.parquet(f"s3a://{BUCKET}/lake-totals/batch=*")
    assert [row.key for row in written.collect()] == ["1"]


def counting(application: str) -> ks.Topology:
    """Return a topology that counts sales."""
    builder = ks.StreamsBuilder(application)
    builder.stream("sales").group_by_key().count(store="counts").to_stream().to(f"{application}-totals")
    return builder.build()
