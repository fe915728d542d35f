"""Connection settings: given by the user, passed to a client, and masked in displays."""

from __future__ import annotations

import logging

import pytest
from confluent_kafka import Producer

from kstreamnb.client_settings import java_client_settings
from kstreamnb.dsl.builder import StreamsBuilder
from kstreamnb.errors import BrokerError, ConfigError
from kstreamnb.kafka.admin import Admin
from kstreamnb.kafka.bounded_reader import BoundedReader
from kstreamnb.kafka.client import LOG, client, connection
from kstreamnb.kafka.producer import RecordProducer
from kstreamnb.kafka.registry import SchemaRegistry
from kstreamnb.masking import masked
from kstreamnb.runtime.context.config import Config, client_setting_names
from kstreamnb.spark.io.offset_source import KafkaOffsetSource
from kstreamnb.spark.planning.deployment_plan import plan
from kstreamnb.validation.config_report import config_report


def test_the_users_settings_stand_between_defaults_and_what_must_be():
    """Tuning settings can be changed; those that correctness depends on cannot."""
    given = {"bootstrap.servers": "broker:9092", "linger.ms": 1, "isolation.level": "read_uncommitted"}
    settings = connection(given, defaults={"linger.ms": 5, "batch.size": 7}, isolation_level="read_committed")
    assert (1, 7, "read_committed") == (settings["linger.ms"], settings["batch.size"], settings["isolation.level"])
    assert "broker:9092" == connection("broker:9092")["bootstrap.servers"]


def test_every_setting_of_java_clients_is_known_to_librdkafka_or_has_an_answer():
    """No name of a documented setting ends with librdkafka's words about an unknown property."""
    unknown = []
    for name in sorted(client_setting_names() - java_client_settings().keys()):
        try:
            client(Producer, connection({"bootstrap.servers": "127.0.0.1:1", name: "1"}))
        except (ConfigError, TypeError) as error:  # a value of another type
            unknown += [name] if "No such configuration property" in str(error) else []
    assert [] == unknown


def test_servers_are_needed():
    """Settings without a broker are refused with a hint what to give."""
    with pytest.raises(ConfigError, match=r'"bootstrap\.servers" is missing'):
        connection({"linger.ms": 5})


@pytest.mark.parametrize(
    "name",
    [
        "sasl.password",
        "ssl.key.password",
        "ssl.key.pem",
        "ssl.keystore.key",
        "ssl.keystore.password",
        "basic.auth.user.info",
        "bearer.auth.token",
        "sasl.oauthbearer.config",
        "sasl.oauthbearer.client.secret",
    ],
)
def test_secrets_are_masked(name):
    """No display or error shows a secret; an empty one is not a secret."""
    assert {name: "***", "client.id": "me"} == masked({name: "hush", "client.id": "me"})
    assert {name: ""} == masked({name: ""})


@pytest.mark.parametrize("address", ["me:hush@127.0.0.1:1", "PLAINTEXT://me:hush@127.0.0.1:1,127.0.0.1:2"])
def test_secrets_in_addresses_are_masked_everywhere(address):
    """Reprs, errors and displays contain the host and not the password."""
    texts = [repr(Admin(address)), repr(RecordProducer(address)), str(masked({"bootstrap.servers": address}))]
    texts.append(repr(SchemaRegistry(f"http://{address}")))
    settings = {"bootstrap.servers": address, "producer.ssl.keystore.key": "hush", "sasl.jaas.config": "hush"}
    texts.append(str(config_report(settings)))
    builder = StreamsBuilder("secrets")
    builder.stream("in").to("out")
    hidden = [
        repr(Config.of(settings)),
        str(plan(builder.build(), config=settings)),
        repr(KafkaOffsetSource(address, ())),
    ]
    assert all("hush" not in text for text in hidden)
    with pytest.raises(BrokerError) as caught:
        Admin(address, patience_s=0.1).topics()
    texts += [str(caught.value), *caught.value.__notes__]
    assert all("hush" not in text for text in texts)
    assert all("***@127.0.0.1:1" in text for text in texts[:6])


@pytest.mark.parametrize("make", [Admin, lambda servers: BoundedReader(servers, ["in"]), RecordProducer])
def test_a_setting_that_librdkafka_does_not_know_is_named(make):
    """The error names the setting, and never its value."""
    with pytest.raises(ConfigError, match=r'No such configuration property: "sasl\.passwort"') as caught:
        make({"bootstrap.servers": "127.0.0.1:1", "sasl.passwort": "hush"})
    assert "hush" not in str(caught.value) + repr(caught.value)


@pytest.mark.parametrize(
    ("said", "level"),
    [
        (("FATAL", "p", "Fatal error: Local: This instance has been fenced by a newer instance"), "DEBUG"),
        (("TXNERR", "p", "There is a newer producer with the same transactionalId"), "DEBUG"),
        (("FATAL", "p", "Fatal error: Broker: Broken"), "CRITICAL"),
    ],
)
def test_a_fencing_is_not_logged_as_critical(
    caplog: pytest.LogCaptureFixture, said: tuple[str, ...], level: str
) -> None:
    """The error is raised anyway, with the application's name; other fatal errors keep their level."""
    caplog.set_level(logging.DEBUG, logger=LOG.name)
    LOG.critical("%s [%s] %s", *said)
    assert [level] == [record.levelname for record in caplog.records]
    caplog.clear()
    caplog.set_level(logging.INFO, logger=LOG.name)
    LOG.critical("%s [%s] %s", *said)
    assert len(caplog.records) == (level == "CRITICAL")


def test_javas_way_to_sign_in_is_translated():
    """A login module becomes user and password, a truststore in PEM the certificates; what librdkafka lacks goes."""
    login = (
        r'org.apache.kafka.common.security.scram.ScramLoginModule required username="shop" password="a \"b\" \\ c;";'
    )
    given = {
        "bootstrap.servers": "broker:9092",
        "sasl.jaas.config": login,
        "ssl.truststore.location": "/etc/ca.pem",
        "ssl.truststore.type": "PEM",
    }
    settings = connection(given)
    assert ("shop", 'a "b" \\ c;') == (settings["sasl.username"], settings["sasl.password"])
    assert "/etc/ca.pem" == settings["ssl.ca.location"]
    assert not [name for name in settings if "jaas" in name or "truststore" in name]


@pytest.mark.parametrize(
    ("name", "value", "remedy"),
    [
        ("sasl.jaas.config", "x.Krb5LoginModule required hush;", "give librdkafka's sasl.mechanism"),
        ("ssl.truststore.location", "/etc/ca.jks", "convert it with keytool and openssl"),
    ],
)
def test_what_librdkafka_cannot_read_is_refused_with_the_way_out(name, value, remedy):
    """And without a secret."""
    with pytest.raises(ConfigError, match=f'"{name}" of Java\'s clients is not supported') as caught:
        connection({"bootstrap.servers": "broker:9092", name: value})
    assert (caught.value.hint or "").startswith(remedy)
    assert "hush" not in f"{caught.value} {caught.value.detail}"
