"""Checkpoints that are not local folders: HDFS and an object store, reached through one session."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import kstreamnb as ks
from kstreamnb.errors import CheckpointError, ConfigError, StorageError
from kstreamnb.kafka.broker_process import LocalBroker
from kstreamnb.kafka.storage.checkpoint_files import FileClaim
from kstreamnb.spark.state.checkpoint_manifest import read_manifest
from tests.cluster.services import BUCKET, Hdfs
from tests.kafka.apps import PATIENCE_S, Bench, counting, counts, final

pytestmark = [pytest.mark.spark, pytest.mark.kafka]


@pytest.fixture(scope="module")
def spark(s3: dict[str, str]) -> Iterator[Any]:
    """A session on this machine that reaches both storages."""
    session = ks.spark.spark_session("storage", settings={**s3, "spark.driver.memory": "1g"})
    yield session
    session.stop()


@pytest.fixture
def address(request: pytest.FixtureRequest, hadoop: Hdfs) -> str:
    """The address of a checkpoint on the storage of the test."""
    name = f"{abs(hash(request.node.name)):x}"
    return {"hdfs": f"{hadoop.url}/{name}", "s3a": f"s3a://{BUCKET}/{name}"}[request.param]


both = pytest.mark.parametrize("address", ["hdfs", "s3a"], indirect=True)


@both
def test_files_are_written_read_listed_moved_and_deleted(spark: Any, address: str) -> None:
    """Every byte is written; files are replaced as a whole; a missing file is None and a missing folder an empty
    list.
    """
    files = ks.spark.checkpoint_files(address, spark)
    assert (address, False) == (files.address, files.local)
    assert (None, [], False) == (files.read("offsets/0"), files.names(), files.exists())
    files.write("offsets/0", b"one")
    files.write("offsets/0", bytes(range(256)))
    files.write("offsets/10", b"v1\nlast")
    assert bytes(range(256)) == files.read("offsets/0")
    assert ([0, 10], "last") == (files.numbers("offsets"), files.last_line("offsets/10"))
    files.move("offsets/0", "damaged/1/offsets/0")
    assert ([10], True) == (files.numbers("offsets"), files.exists("damaged/1/offsets/0"))
    first, second = FileClaim(files), FileClaim(files)
    assert (False, True) == (first.holds(), second.holds())
    files.delete()
    files.delete("nothing")
    assert not files.exists()


@both
def test_a_query_continues_with_its_state(
    spark: Any, address: str, broker: LocalBroker, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Deploy, stop, read, rescale, deploy again and reset: the checkpoint exists only at that address."""
    name = f"kept-{address.partition(':')[0]}"
    bench = Bench(spark, broker.bootstrap_servers, tmp_path)
    request.addfinalizer(lambda: [query.stop() for query in bench.queries])
    options = {"spark": spark, "bootstrap_servers": broker.bootstrap_servers, "checkpoint": address}
    records = bench.fill(f"{name}-in", 40, 2)
    query = ks.deploy(counting(name), available_now=True, **options)
    bench.queries.append(query)
    assert query.await_termination(PATIENCE_S)
    assert address == query.checkpoint
    assert "state is consistent: 2 stores compared" == str(ks.testing.verify_state(query))
    assert counts(records) == {key: query.store("counts")[key] for key in counts(records)}
    query.stop()
    assert counts(records) == dict(ks.spark.read_store(counting(name), "counts", address, spark=spark).all())
    with pytest.raises(ConfigError, match="cannot determine whether"):
        ks.spark.rescale(address, 3, spark=spark)
    ks.spark.rescale(address, 3, spark=spark, bootstrap_servers=broker.bootstrap_servers)
    records += bench.fill(f"{name}-in", 40, 2, begin=40)
    query = ks.deploy(counting(name), available_now=True, **options)
    bench.queries.append(query)
    assert query.await_termination(PATIENCE_S)
    query.stop()
    output = bench.read(f"{name}-out")
    assert (80, counts(records)) == (len(output), final(output))
    files = ks.spark.checkpoint_files(address, spark)
    manifest = read_manifest(files)
    assert manifest is not None
    assert 3 == manifest.spark_partitions
    assert not list(tmp_path.iterdir())
    with pytest.raises(CheckpointError, match="is not a folder of this machine"):
        ks.kafka.reset(broker.bootstrap_servers, name, checkpoint=address)
    ks.kafka.reset(broker.bootstrap_servers, name, checkpoint=files)
    assert not files.exists()


def test_a_storage_that_cannot_be_reached_is_named(spark: Any) -> None:
    """The error names the missing class and how to add jars."""
    with pytest.raises(StorageError, match='checkpoint "gs://bucket/shop" cannot be reached') as caught:
        ks.spark.checkpoint_files("gs://bucket/shop", spark)
    assert "GoogleHadoopFileSystem not found" in str(caught.value.detail)
    assert "spark.jars.packages" in str(caught.value.hint)
