"""The common parts of the option objects of the DSL: converters, validators, ``with_…`` methods and base classes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MethodType
from typing import Any, Generic, Literal, Never, Self, TypeAlias, TypedDict, TypeVar, overload

import attrs
from attrs import Attribute

from kstreamnb.core.arguments import expect, expect_number
from kstreamnb.core.extractors import TimestampExtractor, extractor_of
from kstreamnb.core.names import check_resource_name, check_text
from kstreamnb.core.record import TopicRecord
from kstreamnb.core.serde import Serde
from kstreamnb.core.serdes import serde_or_none
from kstreamnb.core.signatures import check_runs, method_hint
from kstreamnb.core.stores import StoreSpec, text_items
from kstreamnb.core.time import duration_ms
from kstreamnb.errors import ConfigError, expect_known
from kstreamnb.suggesting import Suggesting
from kstreamnb.topology.validation import check_offset_reset as check_reset

T = TypeVar("T")
O = TypeVar("O", bound="Options")  # noqa: E741

SerdeLike: TypeAlias = Serde | str
"""A serde, or the name of a built-in one such as "long"."""

TimestampFunction: TypeAlias = Callable[[TopicRecord, int], int]
"""``(record, partition_time_ms) -> ms``: the event time of a record; a negative one drops it."""

ExtractorLike: TypeAlias = TimestampExtractor | TimestampFunction | str
"""A timestamp extractor, a function that acts as one, or the name of one of Kafka's."""

StoreType: TypeAlias = Literal["persistent", "in_memory"]
"""Which of Kafka's expiry rules a store follows: RocksDB's or the in-memory store's; both are held in memory here."""


# --- converters and validators of options -----------------------------------------------------------------------------
def extractor_or_none(value: ExtractorLike | None) -> TimestampExtractor | None:
    """Return what `extractor_of` makes of a value; None for None."""
    return None if value is None else extractor_of(value)


def _unless_none(check: Callable[[object, str], object]) -> Callable[[object, Attribute[Any], object], None]:
    """Return a validator that calls ``check(value, name)`` for a field with another value than None."""

    def validate(options: object, field: Attribute[Any], value: object) -> None:
        if value is not None:
            check(value, field.name)

    return validate


check_name, check_any_name = _unless_none(check_resource_name), _unless_none(check_text)
check_duration, check_number = _unless_none(duration_ms), _unless_none(expect_number)


def check_flag(options: object, field: Attribute[T], value: T) -> None:
    """Raise ConfigError for anything but True and False."""
    expect(value, bool, field.name, hint="write True or False")


def check_count(options: object, field: Attribute[T], value: T) -> None:
    """Raise ConfigError for a number below 1."""
    if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
        raise ConfigError(f"{field.name} must be at least 1, got {value!r}")


def check_function(options: object, field: Attribute[T], value: T) -> None:
    """Raise ConfigError for anything that cannot be called."""
    if value is not None and not callable(value):
        fact = f'{field.name} must be a function, got type "{type(value).__name__}"'
        raise ConfigError(fact, hint=method_hint(value))
    check_runs(value)


def check_store_type(options: object, field: Attribute[T], value: T) -> None:
    """Raise ConfigError for an unknown type of store."""
    if value not in (None, "persistent", "in_memory"):
        raise ConfigError(f'store type must be "persistent" or "in_memory", got "{value}"')


def check_store(options: object, field: Attribute[T], value: T) -> None:
    """Raise ConfigError for anything but a store made by `Stores`."""
    expect(value, StoreSpec | None, field.name, hint='write for example Stores.persistent_window_store("name", …)')


def check_offset_reset(options: object, field: Attribute[T], value: T) -> None:
    """Raise ConfigError for an unknown offset reset."""
    check_reset(value)


# --- what options have in common --------------------------------------------------------------------------------------
class Named(str):
    """The name of an operator; plain text does as well.

    Example:
        >>> Named.as_("clean")
        'clean'
    """

    __slots__ = ()

    @classmethod
    def as_(cls, name: str) -> Self:
        """Return the name after checking it.

        Args:
            name: letters, digits, ".", "_" and "-", at most 249 of them.

        Raises: TopologyError for an illegal name.
        """
        return cls(check_resource_name(name))


@attrs.frozen(slots=False)
class Options(Suggesting):
    """The base of all option objects."""

    def changed(self, **fields: object) -> Self:
        """Return a copy with some fields replaced; converters and validators run again.

        Args:
            fields: new values by name of the field.

        Raises: ConfigError for an unknown field.
        """
        check_known(type(self), fields)
        return attrs.evolve(self, **fields)


def check_known(kind: type[Options], names: Iterable[str]) -> None:
    """Raise ConfigError for a name that is not a field of an option class."""
    expect_known("option", names, [each.name for each in attrs.fields(kind)], error=ConfigError)


class Setting(Generic[T]):
    """A ``with_…(value)`` method: returns a copy of the options with one field replaced."""

    def __init__(self, name: str) -> None:
        def change(options: O, value: T) -> O:
            return options.changed(**{name: value})

        self.name, self.method = name, change
        change.__doc__ = self.__doc__ = f"Return a copy with another ``{name}``."

    def __set_name__(self, owner: type, name: str) -> None:
        self.method.__name__ = name

    @overload
    def __get__(self, options: None, owner: type) -> Self: ...
    @overload
    def __get__(self, options: O, owner: type) -> Callable[[T], O]: ...
    def __get__(self, options: O | None, owner: type) -> Self | Callable[[T], O]:
        return self if options is None else MethodType(self.method, options)

    def __call__(self, value: T) -> Never:
        """Raise ConfigError, because options are made first."""
        raise ConfigError(f"with_{self.name}() needs an instance", hint=f"pass it to the class: {self.name}=…")


class LogFields(TypedDict):
    """The fields of a store that say how it is logged."""

    logged: bool
    log_config: tuple[tuple[str, str], ...]


class SerdeFields(TypedDict, total=False):
    """The serdes of a topic or store."""

    key_serde: Serde | None
    value_serde: Serde | None


@attrs.frozen(slots=False)
class LoggedOptions(Options):
    """Options of a store: whether it is logged, and the configuration of its changelog topic."""

    logged: bool = attrs.field(default=True, kw_only=True, validator=check_flag)
    log_config: Mapping[str, str] = attrs.field(factory=dict, kw_only=True, converter=text_items)

    def with_logging_disabled(self) -> Self:
        """Return a copy with ``logged=False``."""
        return self.changed(logged=False)

    def with_logging_enabled(self, config: Mapping[str, str] | None = None) -> Self:
        """Return a copy with a changelog topic.

        Args:
            config: topic settings by Kafka's names, such as ``{"retention.ms": "60000"}``. Default: none.
        """
        return self.changed(logged=True, log_config={} if config is None else config)

    @property
    def log_fields(self) -> LogFields:
        """The same as fields of a `StoreSpec`."""
        return {"logged": self.logged, "log_config": tuple(sorted(self.log_config.items()))}


@attrs.frozen(slots=False)
class NamedOptions(Options):
    """Options of an operator that has a name."""

    name: str | None = attrs.field(default=None, kw_only=True, validator=check_name)

    @classmethod
    def as_(cls, name: str) -> Self:
        """Return options with this name.

        Args:
            name: name of the operator's node in the topology.
        """
        return cls(name=name)

    with_name = Setting[str]("name")


@attrs.frozen(slots=False)
class TopicOptions(NamedOptions):
    """Options of a topic: both serdes, and the operator's name."""

    key_serde: Serde | None = attrs.field(default=None, converter=serde_or_none)
    value_serde: Serde | None = attrs.field(default=None, converter=serde_or_none)

    with_key_serde = Setting[SerdeLike]("key_serde")
    with_value_serde = Setting[SerdeLike]("value_serde")

    @classmethod
    def with_(
        cls, key_serde: SerdeLike | None = None, value_serde: SerdeLike | None = None, *, name: str | None = None
    ) -> Self:
        """Return options with these serdes; everything else has a ``with_…`` method.

        Args:
            key_serde: serde of the keys, or its name. Default: None, that of the stream or the application.
            value_serde: serde of the values, or its name. Default: None, that of the stream or the application.
            name: name of the operator's node in the topology. Default: a generated name.
        """
        return cls(key_serde=key_serde, value_serde=value_serde, name=name)

    def serdes(self, key_serde: Serde | None = None, value_serde: Serde | None = None) -> SerdeFields:
        """Return both serdes by field name; the arguments replace missing ones.

        Args:
            key_serde: serde of the keys if the options have none. Default: None.
            value_serde: serde of the values if the options have none. Default: None.
        """
        return {"key_serde": self.key_serde or key_serde, "value_serde": self.value_serde or value_serde}
