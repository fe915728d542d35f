"""S0-39: every setting is honoured, translated, handed on or said not to be needed; none is ignored in silence."""

from __future__ import annotations

import pytest

import kstreamnb as ks
from kstreamnb.runtime.config import _DOTTED, Config, streams_settings


def test_every_setting_of_kafka_streams_has_an_answer() -> None:
    """All 75 of version 4.3; those that the kit knows by name are honoured, or translated to something."""
    report = ks.config_report()
    assert len(report) == len(streams_settings()) == 75
    assert {each.answer for each in report} == {"honoured", "translated", "client", "not needed"}
    for each in report:
        assert each.words, each.name
        assert (each.name in _DOTTED) <= (each.answer in ("honoured", "translated")), each.name


def test_the_settings_of_the_fraud_pipeline_are_all_honoured() -> None:
    """S4-23: application id, brokers, guarantee and serdes as a Java application gives them."""
    serde = "org.apache.kafka.common.serialization.Serdes$StringSerde"
    report = ks.config_report(
        {
            "application.id": "fraud-detector",
            "bootstrap.servers": "kafka-broker:9092",
            "processing.guarantee": "exactly_once_v2",
            "default.key.serde": serde,
            "default.value.serde": serde,
        }
    )
    assert {each.answer for each in report} == {"honoured"}


@pytest.mark.parametrize(("interval", "warns"), [(100, False), (500, False), (1000, True), (10, True)])
def test_an_unusual_commit_interval_is_pointed_out(interval: int, warns: bool) -> None:
    """S4-37: the report shows value and default, and says what is common."""
    answer = ks.config_report({"commit.interval.ms": interval})["commit.interval.ms"]
    assert answer.value == str(interval)
    assert answer.default == "30000"
    assert ("are common" in answer.words) == warns


def test_settings_of_clients_are_handed_on_and_their_values_not_shown() -> None:
    """A password never reaches a display."""
    report = ks.config_report(
        {"security.protocol": "SASL_SSL", "sasl.password": "s3cret", "consumer.fetch.min.bytes": 1}
    )
    assert {each.answer for each in report} == {"client"}
    assert "s3cret" not in str(report)
    assert "SASL_SSL" not in str(report)


def test_a_setting_with_a_slip_is_pointed_out() -> None:
    """What looks like a setting of Kafka Streams but is none may be a mistake."""
    answer = ks.config_report({"num.stream.thread": 4})["num.stream.thread"]
    assert answer.answer == "unknown"
    assert '"num.stream.threads"' in answer.words


def test_clients_get_no_setting_that_only_kafka_streams_reads() -> None:
    """The client library refuses names that it does not know."""
    given = {"num.stream.threads": 4, "state.dir": "/data", "reconnect.backoff.ms": 50, "consumer.fetch.min.bytes": 1}
    assert Config.of(given).client_settings("consumer") == {"reconnect.backoff.ms": 50, "fetch.min.bytes": 1}
