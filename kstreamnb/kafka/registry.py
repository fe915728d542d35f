"""Serdes with schemas from a Schema Registry: Avro, Protobuf and JSON Schema in Confluent's wire format."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import import_module
from typing import Any, ClassVar, Literal, TypeAlias

from kstreamnb.core.arguments import check_arguments
from kstreamnb.core.serde import Serde
from kstreamnb.errors import ConfigError, MissingPackageError, SerdeError
from kstreamnb.masking import masked, without_secrets

Format = Literal["avro", "json_schema", "protobuf"]
Settings = tuple[tuple[str, object], ...]
_OF_PROTOBUF = "google/protobuf/", "google/type/", "confluent/"
_REMEDIES = {
    401: "check the credentials in the registry's settings, such as basic.auth.user.info",
    403: "check the credentials in the registry's settings, and what the registry allows this user",
    409: "make the schema compatible with its earlier versions, or change the compatibility of the subject",
}
"""Hints by the HTTP status of the registry's answer."""
Convert: TypeAlias = Callable[[Any, Any], object]
"""``convert(value, context)`` of the registry's client; the values have the user's own types."""


@dataclass(frozen=True)
class RegistrySerde(Serde):
    """Serializes the keys or values of one topic by a schema of the registry.

    Instances are made by `SchemaRegistry`. They are sent to workers, each of which connects on first use.
    """

    format: Format
    topic: str
    schema: str | type | None
    is_key: bool = False
    settings: Settings = field(default=(), repr=False)
    options: Settings = ()
    to_dict: Convert | None = None
    from_dict: Convert | None = None

    expects: ClassVar[str] = "what its schema allows"

    @property
    def name(self) -> str:  # type: ignore[override]
        """Return the format and the subject, such as ``avro<orders-value>``."""
        return f"{self.format}<{self.topic}-{'key' if self.is_key else 'value'}>"

    def _write(self, value: object) -> bytes:
        write = self._ready(_serializer)
        try:
            if self.format == "protobuf" and isinstance(value, dict):  # a portable message
                value = import_module("google.protobuf.json_format").ParseDict(value, self.schema())  # type: ignore[misc, operator]
            data: bytes = write(value, _context(self.topic, is_key=self.is_key))
        except Exception as error:
            hint = "compare the value with the schema"
            raise self._failed(error) or self._unwritable(value, _words(error, value), hint=hint) from error
        return data

    def _read(self, data: bytes) -> Any:
        read = self._ready(_deserializer)
        try:
            return read(bytes(data), _context(self.topic, is_key=self.is_key))
        except Exception as error:
            raise self._failed(error) or self._unreadable(data, _words(error, None)) from error

    def _ready(self, make: Callable[[RegistrySerde], Callable[..., Any]]) -> Callable[..., Any]:
        """Return a function of the registry's client; if there is none, that is not the fault of a value."""
        try:
            return make(self)
        except Exception as error:
            hint = getattr(error, "hint", None) or "check the schema, the options and the settings of the registry"
            raise SerdeError(f'serde "{self.name}" cannot be set up', detail=_words(error, None), hint=hint) from error

    def _failed(self, error: Exception) -> SerdeError | None:
        """Return an error about the registry or the schema; None if the fault is in the value or the bytes."""
        status = getattr(error, "http_status_code", None)
        kinds = {kind.__name__ for kind in type(error).__mro__}
        if status is None and "TransportError" not in kinds:
            return None
        hint = _REMEDIES.get(status or 0, "check that the registry runs at this address, and has the schema")
        return SerdeError(f'serde "{self.name}" got no schema from its registry', detail=_words(error, None), hint=hint)

    def portable(self, value: object) -> object:
        """Return a message as a dict in Protobuf's JSON form, any other object as its bytes; register no schema.

        Args:
            value: a message, or an object of the user's own type.
        """
        if self.format == "protobuf":
            as_dict = import_module("google.protobuf.json_format").MessageToDict
            return as_dict(value, preserving_proto_field_name=True)
        quiet = replace(self, options=_dotted({**dict(self.options), "auto.register.schemas": False}))
        return quiet.serialize(value)


class SchemaRegistry:
    """Makes serdes for the keys and values of topics from the schemas of a registry.

    Args:
        registry: a URL, or a dict of the client's settings; ``mock://…`` keeps schemas in this process.

    Example:
        >>> registry = SchemaRegistry("mock://doc")
        >>> serde = registry.avro("orders", '{"type": "record", "name": "OrderKey", "fields": []}')
        >>> serde.name
        'avro<orders-value>'
    """

    def __init__(self, registry: str | Mapping[str, object]) -> None:
        check_arguments(SchemaRegistry.__init__, locals())
        settings = {"url": registry} if isinstance(registry, str) else dict(registry)
        if not settings.get("url"):
            raise ConfigError('the schema registry needs a "url"', hint='write "url" for "schema.registry.url"')
        self._settings: Settings = tuple(sorted(settings.items()))

    def avro(
        self,
        topic: str,
        schema: str | Mapping[str, object] | None = None,
        *,
        is_key: bool = False,
        to_dict: Convert | None = None,
        from_dict: Convert | None = None,
        **options: object,
    ) -> Serde:
        """Make an Avro serde.

        Args:
            topic: the topic.
            schema: JSON text or a dict; without one the serde only reads, by the writers' schemas. Default: None.
            is_key: for keys instead of values; default False.
            to_dict: converts the user's objects to dicts. Default: None, values are dicts.
            from_dict: converts dicts to the user's objects. Default: None, values are dicts.
            options: those of the client with ``_`` for ``.``, such as ``auto_register_schemas=False``.

        Raises: ConfigError if the schema is not JSON, or the topic is missing.
        """
        check_arguments(SchemaRegistry.avro, locals())
        text = _checked(topic, schema)
        return RegistrySerde("avro", topic, text, is_key, self._settings, _dotted(options), to_dict, from_dict)

    def json_schema(
        self,
        topic: str,
        schema: str | Mapping[str, object],
        *,
        is_key: bool = False,
        to_dict: Convert | None = None,
        from_dict: Convert | None = None,
        **options: object,
    ) -> Serde:
        """Make a serde for JSON that is valid under a JSON Schema; arguments are those of `avro`.

        Args:
            topic: name of the topic.
            schema: the JSON Schema, as text or as a dict.
            is_key: for keys instead of values. Default: False.
            to_dict: converts the user's objects to dicts. Default: None, values are dicts.
            from_dict: converts dicts to the user's objects. Default: None, values are dicts.
            options: those of the client with ``_`` for ``.``, such as ``auto_register_schemas=False``. Default: the
                client's.

        Raises: ConfigError if the schema is not JSON, or the topic is missing.
        """
        check_arguments(SchemaRegistry.json_schema, locals())
        text = _checked(topic, schema)
        return RegistrySerde("json_schema", topic, text, is_key, self._settings, _dotted(options), to_dict, from_dict)

    def protobuf(self, topic: str, message: type, *, is_key: bool = False, **options: object) -> Serde:
        """Make a serde for Protobuf messages of a generated class; it also writes dicts in Protobuf's JSON form.

        Args:
            topic: name of the topic.
            message: class that ``protoc`` generated.
            is_key: for keys instead of values. Default: False.
            options: those of the client with ``_`` for ``.``, such as ``auto_register_schemas=False``. Default: the
                client's.
        """
        check_arguments(SchemaRegistry.protobuf, locals())
        return RegistrySerde("protobuf", topic, message, is_key, self._settings, _dotted(options))

    def __repr__(self) -> str:
        return f"SchemaRegistry({masked(dict(self._settings))})"


def _checked(topic: str, schema: str | Mapping[str, object] | None) -> str | None:
    """Return a schema as text; raise ConfigError if it is not JSON, or is in the place of the topic."""
    if topic.lstrip().startswith(("{", "[", '"')):
        raise ConfigError("the topic is missing before the schema", hint='write for example avro("orders", schema)')
    text = schema if schema is None or isinstance(schema, str) else json.dumps(schema)
    try:
        json.loads(text or "null")
    except ValueError as error:
        path = text if len((text or "").split()) == 1 else "orders.avsc"
        fact, hint = "the schema is not JSON", f'if it is in a file, pass its text: Path("{path}").read_text()'
        raise ConfigError(fact, detail=str(error), hint=hint) from None
    return text


def _dotted(options: Mapping[str, object]) -> Settings:
    return tuple(sorted((name.replace("_", "."), value) for name, value in options.items()))


def _words(error: Exception, value: object) -> str:
    """Return the words of the registry's client, without the values of the record that it refuses."""
    if isinstance(error, SerdeError):
        return str(error)
    text, refused = f"{type(error).__name__}: {error}", error.__cause__ or error.__context__
    path = getattr(refused, "json_path", "")  # of an error of JSON Schema, which quotes the part at that path alone
    parts = {repr(part) for part in ([getattr(refused, "instance", None)] if path else _parts(value))}
    for part in sorted((part for part in parts if part in text), key=len, reverse=True):
        text = re.sub(rf"(?<![\w.]){re.escape(part)}(?![\w.])", "a value", text, count=int(bool(path)))
    return without_secrets(f"the registry's client says: {text}{f' at {path}' if path else ''}")


def _parts(value: object) -> list[object]:
    """Return a value and all its parts, each once: objects may refer to each other."""
    parts, seen = [value], {id(value)}
    for each in parts:
        named = each if isinstance(each, Mapping) else getattr(each, "__dict__", {})
        inner = each if isinstance(each, list | tuple) else named.values()
        parts += [part for part in inner if id(part) not in seen]
        seen.update(map(id, inner))
    return parts


@cache
def _module(name: str = "") -> Any:
    """Import a module of the registry's client without the warnings about its own dependencies."""
    with warnings.catch_warnings(record=True):  # it sets its own filters, so ignoring is not enough
        try:
            return import_module(f"confluent_kafka.schema_registry{name}")
        except ImportError as error:
            hint = 'pip install "kstreamnb[registry]"'
            fact = "the schema registry's client is not installed"
            raise MissingPackageError(fact, detail=str(error), hint=hint) from error


@cache
def _client(settings: Settings) -> Any:
    return _module().SchemaRegistryClient.new_client(dict(settings))


@cache
def _context(topic: str, *, is_key: bool) -> Any:
    serialization = import_module("confluent_kafka.serialization")
    field_name = serialization.MessageField.KEY if is_key else serialization.MessageField.VALUE
    return serialization.SerializationContext(topic, field_name)


@cache
def _serializer(serde: RegistrySerde) -> Callable[[object, object], bytes]:
    client, options = _client(serde.settings), dict(serde.options)
    if serde.schema is None:
        raise SerdeError("a serde without a schema cannot write", hint="give registry.avro(topic, schema)")
    if serde.format == "avro":
        return _module(".avro").AvroSerializer(client, serde.schema, serde.to_dict, options)
    if serde.format == "json_schema":
        return _module(".json_schema").JSONSerializer(serde.schema, client, serde.to_dict, options)
    return _module(".protobuf").ProtobufSerializer(serde.schema, client, {"use.deprecated.format": False, **options})


@cache
def _deserializer(serde: RegistrySerde) -> Callable[[bytes, object], object]:
    client = _client(serde.settings)
    if serde.format == "avro":
        return _module(".avro").AvroDeserializer(client, serde.schema, serde.from_dict)
    if serde.format == "json_schema":
        decode = _module(".json_schema").JSONDeserializer
        return decode(serde.schema, from_dict=serde.from_dict, schema_registry_client=client)
    # The client adds a writer's schema to descriptors that have Protobuf's own messages, such as Timestamp, already.
    # Without a registry it reads a message by its class alone.
    is_known = serde.schema.DESCRIPTOR.file.name.startswith(_OF_PROTOBUF)  # type: ignore[union-attr]
    options = {"use.deprecated.format": False}
    return _module(".protobuf").ProtobufDeserializer(serde.schema, options, None if is_known else client)
