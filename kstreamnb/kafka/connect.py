"""Configures Kafka Connect to write a topic to a database."""

from __future__ import annotations

from collections.abc import Mapping

from kstreamnb.core.arguments import check_arguments
from kstreamnb.errors import ConfigError, unknown

_CLASSES = {"jdbc-sink": "io.confluent.connect.jdbc.JdbcSinkConnector"}


def connect_config(
    topic: str,
    kind: str,
    *,
    url: str,
    key_column: str,
    schema_registry: str | None = None,
    name: str | None = None,
    tasks: int = 1,
    settings: Mapping[str, str] | None = None,
) -> dict[str, str | dict[str, str]]:
    """Return the body of Kafka Connect's ``POST /connectors`` for a connector that writes a topic to a database.

    It reads committed records only. Each record replaces the row of its key, and a tombstone deletes it, so a record
    that is delivered twice changes nothing: the table has exactly the content of the topic.

    Args:
        topic: the topic.
        kind: "jdbc-sink".
        url: the database, such as ``jdbc:postgresql://db/shop``.
        key_column: the column of the record's key, which is the table's primary key.
        schema_registry: URL of the registry of Avro schemas: a row needs columns with types, which plain JSON lacks.
            Default: None.
        name: the connector's name; by default the topic's name and the kind.
        tasks: how many tasks of Connect share the partitions; default 1.
        settings: Connect's own settings, which replace all others; with converters no ``schema_registry`` is needed.
            Default: none.

    Example:
        >>> made = connect_config(
        ...     "stock", "jdbc-sink", url="jdbc:postgresql://db/shop", key_column="sku",
        ...     schema_registry="http://registry:8081",
        ... )
        >>> made["name"], made["config"]["consumer.override.isolation.level"], made["config"]["insert.mode"]
        ('stock-jdbc-sink', 'read_committed', 'upsert')
    """
    check_arguments(connect_config, locals())
    if kind not in _CLASSES:
        raise unknown("kind of connector", kind, _CLASSES, error=ConfigError)
    if tasks < 1:
        raise ConfigError(f"tasks must be at least 1, got {tasks}")
    own = dict(settings or {})
    if schema_registry is not None:
        own = {
            "value.converter": "io.confluent.connect.avro.AvroConverter",
            "value.converter.schema.registry.url": schema_registry,
            **own,
        }
    if "value.converter" not in own:
        raise ConfigError(
            f'the columns of topic "{topic}" are unknown',
            detail="rows need names and types, which only values with a schema have",
            hint='give schema_registry="http://…", or settings={"value.converter": …}',
        )
    config = {
        "connector.class": _CLASSES[kind],
        "tasks.max": str(tasks),
        "topics": topic,
        "connection.url": url,
        "insert.mode": "upsert",
        "delete.enabled": "true",
        "pk.mode": "record_key",
        "pk.fields": key_column,
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
        "consumer.override.isolation.level": "read_committed",
        **own,
    }
    return {"name": name or f"{topic}-{kind}", "config": {key: str(value) for key, value in config.items()}}
