"""Serdes whose schemas live in a Schema Registry: Avro, Protobuf and JSON Schema in Confluent's wire format."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from typing import Any, ClassVar, Literal

from kstreamnb.core.serde import Serde
from kstreamnb.errors import ConfigError, SerdeError
from kstreamnb.kafka.client import masked

__all__ = ["RegistrySerde", "SchemaRegistry"]

Format = Literal["avro", "json_schema", "protobuf"]
Settings = tuple[tuple[str, Any], ...]


@dataclass(frozen=True)
class RegistrySerde(Serde):
    """Values of one topic's keys or values by a schema of the registry.

    Instances are made by `SchemaRegistry`; they travel to workers, each of which connects when it first needs to.
    """

    format: Format
    topic: str
    schema: Any
    is_key: bool = False
    settings: Settings = field(default=(), repr=False)
    options: Settings = ()
    to_dict: Callable[[Any, Any], Any] | None = None
    from_dict: Callable[[Any, Any], Any] | None = None

    expects: ClassVar[str] = "what its schema allows"

    @property
    def name(self) -> str:  # type: ignore[override]
        """The format and the subject, such as ``avro<orders-value>``."""
        return f"{self.format}<{self.topic}-{'key' if self.is_key else 'value'}>"

    def _write(self, value: Any) -> bytes:
        try:
            data: bytes = _serializer(self)(value, _context(self.topic, is_key=self.is_key))
        except Exception as error:
            raise self._unwritable(value, _words(error), hint="compare the value with the schema") from error
        return data

    def _read(self, data: bytes) -> Any:
        try:
            return _deserializer(self)(bytes(data), _context(self.topic, is_key=self.is_key))
        except Exception as error:
            raise self._unreadable(data, _words(error)) from error


class SchemaRegistry:
    """A Schema Registry: gives serdes for the keys and values of topics.

    ``registry`` is a URL or a dict of the client's settings; ``mock://…`` keeps schemas in this process.

    Example:
        >>> registry = SchemaRegistry("mock://doc")
        >>> serde = registry.avro("orders", '{"type": "record", "name": "OrderKey", "fields": []}')
        >>> serde.name
        'avro<orders-value>'
    """

    def __init__(self, registry: str | Mapping[str, Any]) -> None:
        settings = {"url": registry} if isinstance(registry, str) else dict(registry)
        if not settings.get("url"):
            raise ConfigError('setting "url" of the schema registry is missing')
        self._settings: Settings = tuple(sorted(settings.items()))

    def avro(
        self,
        topic: str,
        schema: str | None = None,
        *,
        is_key: bool = False,
        to_dict: Callable[[Any, Any], Any] | None = None,
        from_dict: Callable[[Any, Any], Any] | None = None,
        **options: Any,
    ) -> Serde:
        """Avro by a schema as JSON text; without one the serde only reads, by the writer's schemas.

        ``to_dict`` and ``from_dict`` turn a user's objects into dicts and back. Options are those of the client with
        ``_`` for ``.``, such as ``auto_register_schemas=False``.
        """
        return RegistrySerde("avro", topic, schema, is_key, self._settings, _dotted(options), to_dict, from_dict)

    def json_schema(
        self,
        topic: str,
        schema: str,
        *,
        is_key: bool = False,
        to_dict: Callable[[Any, Any], Any] | None = None,
        from_dict: Callable[[Any, Any], Any] | None = None,
        **options: Any,
    ) -> Serde:
        """JSON that a JSON Schema, given as text, holds for."""
        return RegistrySerde("json_schema", topic, schema, is_key, self._settings, _dotted(options), to_dict, from_dict)

    def protobuf(self, topic: str, message: type, *, is_key: bool = False, **options: Any) -> Serde:
        """Protobuf messages of a generated class."""
        return RegistrySerde("protobuf", topic, message, is_key, self._settings, _dotted(options))

    def __repr__(self) -> str:
        return f"SchemaRegistry({masked(dict(self._settings))})"


def _dotted(options: dict[str, Any]) -> Settings:
    return tuple(sorted((name.replace("_", "."), value) for name, value in options.items()))


def _words(error: Exception) -> str:
    if isinstance(error, SerdeError):
        return str(error)
    return f"the registry's client says: {type(error).__name__}: {error}"


@cache
def _module(name: str = "") -> Any:
    """A module of the registry's client, which warns of its own dependencies when it is imported."""
    with warnings.catch_warnings(record=True):  # it also sets filters of its own, so ignoring is not enough
        try:
            return import_module(f"confluent_kafka.schema_registry{name}")
        except ImportError as error:
            hint = 'install "kstreamnb[registry]"'
            raise ConfigError("the schema registry's client is not installed", detail=str(error), hint=hint) from error


@cache
def _client(settings: Settings) -> Any:
    return _module().SchemaRegistryClient.new_client(dict(settings))


@cache
def _context(topic: str, *, is_key: bool) -> Any:
    serialization = import_module("confluent_kafka.serialization")
    field_name = serialization.MessageField.KEY if is_key else serialization.MessageField.VALUE
    return serialization.SerializationContext(topic, field_name)


@cache
def _serializer(serde: RegistrySerde) -> Callable[[Any, Any], bytes]:
    client, options = _client(serde.settings), dict(serde.options)
    if serde.schema is None:
        raise SerdeError("a serde without a schema only reads")
    if serde.format == "avro":
        made = _module(".avro").AvroSerializer(client, serde.schema, serde.to_dict, options)
    elif serde.format == "json_schema":
        made = _module(".json_schema").JSONSerializer(serde.schema, client, serde.to_dict, options)
    else:
        options = {"use.deprecated.format": False, **options}
        made = _module(".protobuf").ProtobufSerializer(serde.schema, client, options)
    write: Callable[[Any, Any], bytes] = made
    return write


@cache
def _deserializer(serde: RegistrySerde) -> Callable[[bytes, Any], Any]:
    client = _client(serde.settings)
    if serde.format == "avro":
        made = _module(".avro").AvroDeserializer(client, serde.schema, serde.from_dict)
    elif serde.format == "json_schema":
        made = _module(".json_schema").JSONDeserializer(
            serde.schema, from_dict=serde.from_dict, schema_registry_client=client
        )
    else:
        made = _module(".protobuf").ProtobufDeserializer(serde.schema, {"use.deprecated.format": False}, client)
    read: Callable[[bytes, Any], Any] = made
    return read
