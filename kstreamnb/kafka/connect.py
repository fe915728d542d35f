"""Configuration of connectors: what takes a topic on into a store outside, without a program of one's own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kstreamnb.errors import ConfigError, did_you_mean

__all__ = ["connect_config"]

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
) -> dict[str, Any]:
    """What Kafka Connect's ``POST /connectors`` takes for a connector that writes a topic to a database.

    It reads only what is committed. Each record replaces the row of its key, and a tombstone deletes it, so a record
    that comes twice changes nothing: the table is exactly what the topic says.

    Args:
        topic: what the application writes.
        kind: "jdbc-sink".
        url: the database, such as ``jdbc:postgresql://db/shop``.
        key_column: the column of the record's key, which is the table's primary key.
        schema_registry: where schemas are: a row needs columns with types, and plain JSON has none. Values are Avro.
        name: the connector's name; that of the topic with its kind unless said otherwise.
        tasks: how many tasks of Connect share the partitions.
        settings: Connect's own settings, over all others; converters among them make ``schema_registry`` needless.

    Example:
        >>> made = connect_config(
        ...     "stock", "jdbc-sink", url="jdbc:postgresql://db/shop", key_column="sku",
        ...     schema_registry="http://registry:8081",
        ... )
        >>> made["name"], made["config"]["consumer.override.isolation.level"], made["config"]["insert.mode"]
        ('stock-jdbc-sink', 'read_committed', 'upsert')
    """
    if kind not in _CLASSES:
        hint = did_you_mean(kind, _CLASSES) or f"there is {', '.join(_CLASSES)}"
        raise ConfigError(f'"{kind}" is no kind of connector that is known here', hint=hint)
    if tasks < 1:
        raise ConfigError(f"a connector cannot have {tasks} tasks")
    own = dict(settings or {})
    if schema_registry is not None:
        own = {
            "value.converter": "io.confluent.connect.avro.AvroConverter",
            "value.converter.schema.registry.url": schema_registry,
            **own,
        }
    if "value.converter" not in own:
        raise ConfigError(
            f'the connector cannot tell the columns of topic "{topic}"',
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
