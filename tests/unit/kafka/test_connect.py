"""Configuration of connectors: valid for Kafka Connect, without duplicates or uncommitted records."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kstreamnb.errors import ConfigError
from kstreamnb.kafka.connect import connect_config

jsonschema = pytest.importorskip("jsonschema")

TEXT = {"type": "string", "minLength": 1}
# Kafka Connect accepts a name and text settings, among them those that the connector requires.
SCHEMA = {
    "type": "object",
    "required": ["name", "config"],
    "additionalProperties": False,
    "properties": {
        "name": TEXT,
        "config": {
            "type": "object",
            "additionalProperties": TEXT,
            "required": ["connector.class", "topics", "tasks.max", "connection.url", "pk.fields", "value.converter"],
            "properties": {
                "tasks.max": {"pattern": "^[1-9][0-9]*$"},
                "connection.url": {"pattern": "^jdbc:[a-z0-9]+:"},
                "insert.mode": {"enum": ["insert", "upsert", "update"]},
                "pk.mode": {"enum": ["none", "kafka", "record_key", "record_value"]},
                "delete.enabled": {"enum": ["true", "false"]},
                "consumer.override.isolation.level": {"enum": ["read_committed", "read_uncommitted"]},
            },
        },
    },
}
SHOP: dict[str, Any] = {"url": "jdbc:postgresql://db/shop", "key_column": "sku", "schema_registry": "http://reg:8081"}


def test_a_sink_reads_what_is_committed_and_replaces_rows() -> None:
    """S3-23: valid JSON; read_committed; a repeated record replaces its row, a tombstone deletes it."""
    made = json.loads(json.dumps(connect_config("stock", "jdbc-sink", tasks=4, **SHOP)))
    jsonschema.validate(made, SCHEMA)
    config = made["config"]
    assert ("stock-jdbc-sink", "stock", "4", "sku") == (
        made["name"], config["topics"], config["tasks.max"], config["pk.fields"],
    )  # fmt: skip
    assert "read_committed" == config["consumer.override.isolation.level"]
    assert ("upsert", "record_key", "true") == (config["insert.mode"], config["pk.mode"], config["delete.enabled"])
    assert "http://reg:8081" == config["value.converter.schema.registry.url"]


def test_settings_of_ones_own_win() -> None:
    """S3-23: another converter, another class, a name."""
    own = {"value.converter": "org.apache.kafka.connect.json.JsonConverter", "connector.class": "io.aiven.Jdbc"}
    shop = {**SHOP, "schema_registry": None}
    made = connect_config("stock", "jdbc-sink", name="mine", settings=own, **shop)
    jsonschema.validate(made, SCHEMA)
    assert "mine" == made["name"]
    assert own == {name: made["config"][name] for name in own}


@pytest.mark.parametrize(
    ("kind", "url", "address", "deletes"),
    [
        ("elasticsearch-sink", "http://search:9200", "connection.url", {"behavior.on.null.values": "delete"}),
        ("opensearch-sink", "http://search:9200", "connection.url", {"behavior.on.null.values": "delete"}),
        ("mongodb-sink", "mongodb://db/shop?w=1", "connection.uri", {"delete.on.null.values": "true"}),
    ],
)
def test_an_index_and_a_collection_have_one_document_for_each_key(
    kind: str, url: str, address: str, deletes: dict[str, str]
) -> None:
    """S1-22: JSON without schemas; the key is the document's id, and a tombstone deletes the document."""
    config = connect_config("stock", kind, url=url)["config"]
    assert isinstance(config, dict)
    jsonschema.validate(config, {"additionalProperties": TEXT, "required": ["connector.class", "topics", address]})
    assert url == config[address]
    assert deletes.items() <= config.items()
    assert ("read_committed", "false") == (
        config["consumer.override.isolation.level"], config["value.converter.schemas.enable"],
    )  # fmt: skip
    if kind == "mongodb-sink":
        assert ("shop", "stock", "_id") == (config["database"], config["collection"], config["transforms.id.field"])
        assert config["document.id.strategy"].endswith("ProvidedInKeyStrategy")
    else:
        assert "false" == config["key.ignore"]


def test_an_index_of_avro_values_reads_them_by_the_registry() -> None:
    """S1-22: the registry's converter replaces that of JSON."""
    made = connect_config("stock", "opensearch-sink", url="http://search:9200", schema_registry="http://reg:8081")
    assert isinstance(made["config"], dict)
    assert "io.confluent.connect.avro.AvroConverter" == made["config"]["value.converter"]
    assert "value.converter.schemas.enable" not in made["config"]


@pytest.mark.parametrize(
    ("kind", "options", "said"),
    [
        ("jdbc-snk", {}, 'kind of connector "jdbc-snk" does not exist'),
        ("jdbc-sink", {"tasks": 0}, "tasks must be at least 1, got 0"),
        ("jdbc-sink", {"key_column": None}, 'the table of topic "stock" has no primary key'),
        ("mongodb-sink", {"url": "mongodb://db"}, "MongoDB's address names no database"),
        ("jdbc-sink", {"schema_registry": None}, 'the columns of topic "stock" are unknown'),
    ],
)
def test_what_connect_would_refuse_is_refused_here(kind: str, options: dict[str, Any], said: str) -> None:
    """S3-23: refused at once, with the alternative."""
    with pytest.raises(ConfigError, match=said) as raised:
        connect_config("stock", kind, **{**SHOP, **options})
    assert raised.value.hint or "got 0" in said
