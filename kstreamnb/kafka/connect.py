"""Configures Kafka Connect to keep a copy of a topic in a database or a search index."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from urllib.parse import urlsplit

from kstreamnb.core.arguments import at_least, check_arguments
from kstreamnb.data_files import text_of
from kstreamnb.errors import ConfigError, expect_known

_SINKS: dict[str, dict[str, str]] = tomllib.loads(text_of(__package__, "connect_sinks.toml"))
_AVRO = "io.confluent.connect.avro.AvroConverter"
_JSON = {"value.converter": "org.apache.kafka.connect.json.JsonConverter", "value.converter.schemas.enable": "false"}


def connect_config(
    topic: str,
    kind: str,
    *,
    url: str,
    key_column: str | None = None,
    schema_registry: str | None = None,
    name: str | None = None,
    tasks: int = 1,
    settings: Mapping[str, str] | None = None,
) -> dict[str, str | dict[str, str]]:
    """Return the body of Kafka Connect's ``POST /connectors`` for a connector that keeps a copy of a topic elsewhere.

    It reads committed records only. Each record replaces the row or document of its key, and a tombstone deletes it, so
    a record that is delivered twice changes nothing: the copy has exactly the content of the topic.

    Args:
        topic: the topic; its keys are text.
        kind: "jdbc-sink" for a table, "elasticsearch-sink" or "opensearch-sink" for an index, "mongodb-sink" for a
            collection, which has the topic's name.
        url: the address, such as ``jdbc:postgresql://db/shop``, ``http://search:9200`` or ``mongodb://db/shop``, whose
            path is the database.
        key_column: of "jdbc-sink": the column of the record's key, which is the table's primary key. Default: None.
        schema_registry: URL of the registry of Avro schemas. "jdbc-sink" needs it, because a table needs columns with
            types, which plain JSON lacks. Default: None, values are JSON.
        name: the connector's name; by default the topic's name and the kind.
        tasks: how many tasks of Connect share the partitions; default 1.
        settings: Connect's own settings, which replace all others; with converters no ``schema_registry`` is needed.
            Default: none.

    Raises:
        ConfigError: an unknown kind, no column for the key of a table, no database in MongoDB's address.

    Example:
        >>> made = connect_config(
        ...     "stock", "jdbc-sink", url="jdbc:postgresql://db/shop", key_column="sku",
        ...     schema_registry="http://registry:8081",
        ... )
        >>> made["name"], made["config"]["consumer.override.isolation.level"], made["config"]["insert.mode"]
        ('stock-jdbc-sink', 'read_committed', 'upsert')
        >>> found = connect_config("stock", "elasticsearch-sink", url="http://search:9200")["config"]
        >>> found["key.ignore"], found["behavior.on.null.values"]
        ('false', 'delete')
    """
    check_arguments(connect_config, locals())
    expect_known("kind of connector", [kind], _SINKS, error=ConfigError)
    at_least(1, tasks, "tasks")
    own = dict(settings or {})
    if schema_registry is not None:
        own = {"value.converter": _AVRO, "value.converter.schema.registry.url": schema_registry, **own}
    config = {
        **_SINKS[kind],
        "tasks.max": str(tasks),
        "topics": topic,
        **_place(topic, kind, url, key_column, own),
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
        "consumer.override.isolation.level": "read_committed",
        **own,
    }
    return {"name": name or f"{topic}-{kind}", "config": {key: str(value) for key, value in config.items()}}


def _place(topic: str, kind: str, url: str, key_column: str | None, own: Mapping[str, str]) -> dict[str, str]:
    """Return the settings that say where the copy is, and how values are read if the user does not say it."""
    if kind == "jdbc-sink":
        if key_column is None:
            fact = f'the table of topic "{topic}" has no primary key'
            raise ConfigError(fact, hint='name the column of the records\' keys: key_column="id"')
        if "value.converter" not in own:
            fact = f'the columns of topic "{topic}" are unknown'
            hint = 'give schema_registry="http://…", or settings={"value.converter": …}'
            raise ConfigError(fact, detail="rows need names and types, which only values with a schema have", hint=hint)
        return {"connection.url": url, "pk.fields": key_column}
    values = {} if "value.converter" in own else _JSON
    if kind != "mongodb-sink":
        return {"connection.url": url, **values}
    database = urlsplit(url).path.strip("/")
    if not database:
        raise ConfigError(f'"{topic}": MongoDB\'s address names no database', hint='write it as "mongodb://host/shop"')
    return {"connection.uri": url, "database": database, "collection": topic, **values}
