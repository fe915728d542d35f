"""Connection settings: what a user gives, what a client gets, what may be shown."""

from __future__ import annotations

import pytest

from kstreamnb.errors import ConfigError
from kstreamnb.kafka.admin import Admin
from kstreamnb.kafka.bounded_reader import BoundedReader
from kstreamnb.kafka.client import connection, masked
from kstreamnb.kafka.producer import RecordProducer


def test_the_users_settings_stand_between_defaults_and_what_must_be():
    """A user tunes what is tunable and cannot change what correctness rests on."""
    given = {"bootstrap.servers": "broker:9092", "linger.ms": 1, "isolation.level": "read_uncommitted"}
    settings = connection(given, defaults={"linger.ms": 5, "batch.size": 7}, isolation_level="read_committed")
    assert (1, 7, "read_committed") == (settings["linger.ms"], settings["batch.size"], settings["isolation.level"])
    assert "broker:9092" == connection("broker:9092")["bootstrap.servers"]


def test_servers_are_needed():
    """Settings without a broker are refused with what to give."""
    with pytest.raises(ConfigError, match=r'"bootstrap\.servers" is missing'):
        connection({"linger.ms": 5})


@pytest.mark.parametrize(
    "name", ["sasl.password", "ssl.key.password", "ssl.key.pem", "basic.auth.user.info", "sasl.oauthbearer.config"]
)
def test_secrets_are_masked(name):
    """No display or error shows a secret; an empty one is no secret."""
    assert {name: "***", "client.id": "me"} == masked({name: "hush", "client.id": "me"})
    assert {name: ""} == masked({name: ""})


@pytest.mark.parametrize("make", [Admin, lambda servers: BoundedReader(servers, ["in"]), RecordProducer])
def test_a_setting_that_librdkafka_does_not_know_is_named(make):
    """The error says which one, and never its value."""
    with pytest.raises(ConfigError, match=r'No such configuration property: "sasl\.passwort"') as caught:
        make({"bootstrap.servers": "127.0.0.1:1", "sasl.passwort": "hush"})
    assert "hush" not in str(caught.value) + repr(caught.value)
