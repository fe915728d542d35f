"""Errors without a broker."""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Generator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import kstreamnb as ks
from kstreamnb.errors import BrokerError, ConfigError, MissingJavaError
from kstreamnb.kafka import bounded_reader
from kstreamnb.kafka.admin import Admin
from kstreamnb.kafka.bounded_reader import Piece
from kstreamnb.kafka.java import java
from kstreamnb.spark.io import offset_source
from kstreamnb.spark.io.offset_source import KafkaOffsetSource
from kstreamnb.spark.query.query import Query

NOBODY = "127.0.0.1:1"


def test_topics_are_neither_created_nor_deleted_where_nobody_answers() -> None:
    """It is an error of the kit, so that callers waiting for a broker keep waiting."""
    admin = Admin(NOBODY, patience_s=0.2)
    with pytest.raises(BrokerError, match='creating topic "orders" failed at '):
        admin.create_topic("orders", exists_ok=True)
    with pytest.raises(BrokerError, match='deleting topic "orders" failed at '):
        admin.delete_topics("orders")


def test_a_list_of_topics_to_delete_is_refused() -> None:
    """Other clients take a list."""
    with pytest.raises(ConfigError, match="name of a topic must be str, got a list of str") as caught:
        Admin(NOBODY).delete_topics(["orders"])  # type: ignore[arg-type]
    assert 'delete_topics("orders", "payments")' in "".join(caught.value.__notes__)


@pytest.mark.parametrize(
    "call",
    [
        Admin.topics,
        Admin.existing,
        Admin.identities,
        Admin.offsets,
        Admin.greatest_timestamps,
        lambda admin, topic: admin.settings(topic, ["retention.ms"]),
    ],
)
def test_one_name_instead_of_a_list_of_topics_is_refused(call: Callable[[Admin, Any], object]) -> None:
    """Its letters would be names of topics, which do not exist."""
    with pytest.raises(ConfigError, match="topics must be a list, got 'orders'") as caught:
        call(Admin(NOBODY), "orders")
    assert "write ['orders']" in "".join(caught.value.__notes__)


def test_one_name_of_a_setting_is_refused() -> None:
    """As for topics."""
    with pytest.raises(ConfigError, match=r"names of settings must be a list, got 'retention.ms'"):
        Admin(NOBODY).settings(["orders"], "retention.ms")


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (
            {"cleanup.policy": ["compact"]},
            'expected text, a number, a bool for setting "cleanup.policy", got type "list"',
        ),
        ({"segment.bytes": timedelta(1)}, 'a bool for setting "segment.bytes", got type "timedelta"'),
        ({"retention.ms": None}, 'a bool or a timedelta for setting "retention.ms", got type "NoneType"'),
    ],
)
def test_a_setting_of_a_topic_that_has_no_text_is_refused_with_its_name(config: Any, message: str) -> None:
    """Before a broker is asked, which would see the text of Python's object."""
    with pytest.raises(ConfigError, match=message):
        Admin(NOBODY, patience_s=60).create_topic("orders", config=config)


def test_a_refused_connection_is_said_within_seconds_with_the_way_out() -> None:
    """Nothing listens there: retries are for brokers that were reachable before."""
    began = time.monotonic()
    with pytest.raises(BrokerError, match=f'listing topics failed at "{NOBODY}"') as caught:
        Admin(NOBODY, patience_s=600).topics()
    assert time.monotonic() - began < 8
    assert "Connection refused" in str(caught.value.detail)
    assert "ks.kafka.local_broker()" in str(caught.value.hint)


def test_java_is_missed_before_a_broker_is_waited_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A missing Java is reported at once, before the broker."""
    monkeypatch.setenv("JAVA_HOME", "")
    monkeypatch.setenv("PATH", str(tmp_path))
    builder = ks.StreamsBuilder("no-java")
    builder.stream("in").to("out")
    with pytest.raises(MissingJavaError, match="no Java was found"):
        ks.deploy(builder.build(), bootstrap_servers=NOBODY, checkpoint=tmp_path / "checkpoint")


def test_a_wrong_java_home_is_reported_with_the_java_that_is_there(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Installing another one would not help; a file that may not be executed counts as none."""
    for folder, mode in (("home/bin", 0o644), ("path", 0o755)):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "java").write_text("#!/bin/sh\n")
        (tmp_path / folder / "java").chmod(mode)
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    with pytest.raises(MissingJavaError, match="no Java was found") as raised:
        java()
    assert f"unset JAVA_HOME to run {tmp_path}/path/java" in str(raised.value.hint)


@pytest.mark.parametrize(
    "settings", [{"security.protocol": "SHOUTING"}, {"consumer.fetch.min.bytes": "x"}, {"consumer.nonsense.ms": 1}]
)
def test_settings_of_the_config_reach_the_clients_beside_an_address(
    settings: dict[str, object], tmp_path: Path
) -> None:
    """The refusal shows that the client received the settings; without them it would continue."""
    builder = ks.StreamsBuilder("settings")
    builder.stream("in").to("out")
    with pytest.raises(ConfigError, match="Kafka's client refuses its settings"):
        ks.deploy(builder.build(), bootstrap_servers=NOBODY, checkpoint=tmp_path / "checkpoint", config=settings)


def test_who_only_looks_at_a_query_is_not_kept_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """A query retries for minutes; a status does not wait."""
    monkeypatch.setattr(offset_source, "_GLANCE_S", 0.2)
    feed = KafkaOffsetSource(NOBODY, ("orders",))
    assert feed.glance() is None
    assert 300 == feed.patience_s
    assert pickle.loads(pickle.dumps(feed)) == KafkaOffsetSource(NOBODY, ("orders",))


@pytest.mark.parametrize(("word", "name"), [("close", "stop"), ("wait", "await_termination"), ("stor", "store")])
def test_a_query_knows_what_its_methods_are_called_elsewhere(word: str, name: str) -> None:
    """A method name of another library, or a mistyped one, gets the right method as a suggestion."""
    with pytest.raises(ks.errors.UnknownNameError) as caught:
        getattr(Query.__new__(Query), word)
    assert f'did you mean "{name}"?' == caught.value.hint


def test_a_read_that_often_stalls_waits_no_longer_than_its_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each stall doubles the wait for the next record; hours of progress with stalls must not make it endless."""
    monkeypatch.setattr(bounded_reader, "_CALL_S", 0.01)
    waits: list[float] = []

    def stalling(*given: Any) -> Generator[Any, None, list[Piece]]:
        """Get one record, and no other for as long as the last argument says."""
        (topic, partition, start, end), silent_s = given[2][0], given[-1]
        waits.append(silent_s)
        yield topic, partition, [start]
        return [] if start + 1 == end else [Piece(topic, partition, start + 1, end)]

    monkeypatch.setattr(bounded_reader, "_fetch", stalling)
    assert 12 == len(list(bounded_reader.fetch(NOBODY, [Piece("in", 0, 0, 12)])))
    assert [10, 20, 40, 80, 160, *[bounded_reader._PATIENCE_S] * 7] == waits
