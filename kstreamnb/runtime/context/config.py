"""Settings of an application, under Python names or under Kafka's dotted ones."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from typing import Any, NamedTuple

from kstreamnb.core.arguments import at_least, expect
from kstreamnb.core.extractors import extractor_of
from kstreamnb.core.names import LEGAL_NAME, check_resource_name
from kstreamnb.core.serde import Serde
from kstreamnb.core.serdes import Serdes, serde_named
from kstreamnb.core.time import MAX_TIME_MS, duration_ms
from kstreamnb.data_files import rows_of
from kstreamnb.errors import ConfigError, existing, expect_known, unknown
from kstreamnb.runtime.context.handlers import Handler, handler_of, uncaught_handler_of

_NAMES = rows_of(__package__, "setting_names.tsv")
_DOTTED = {dotted: name for dotted, name, *_ in _NAMES}
_OLD = {dotted for dotted, _, *old in _NAMES if old}
_SPANS = {"commit_interval": "commit_interval_ms", "max_task_idle": "max_task_idle_ms"}
_IN_FLIGHT, _MOST_IN_FLIGHT = "max.in.flight.requests.per.connection", 5
_STORE_FORMATS = ("default", "headers")
_GUARANTEES = ("exactly_once_v2", "at_least_once")
_PREFIXES = ("admin.", "consumer.", "global.consumer.", "main.consumer.", "producer.", "restore.consumer.", "topic.")


class StreamsSetting(NamedTuple):
    """A setting of Kafka Streams: the given value, Kafka's default, how it is handled here, and why.

    ``answer`` is "honoured", "translated" (to what ``words`` say), "client" (passed on), "not needed", "not supported"
    or "unknown".
    """

    name: str
    value: str
    default: str
    answer: str
    words: str


def streams_settings() -> Mapping[str, StreamsSetting]:
    """Return every setting of Kafka Streams by name."""
    return _listed("streams_settings.tsv")


def other_settings() -> Mapping[str, StreamsSetting]:
    """Return, by name, the settings that texts on Kafka Streams mention although it does not have them."""
    return _listed("other_settings.tsv")


@cache
def _listed(name: str) -> Mapping[str, StreamsSetting]:
    return {name: StreamsSetting(name, "", *rest) for name, *rest in rows_of(__package__, name)}


@cache
def client_setting_names() -> frozenset[str]:
    """Return the names of client settings: Java's consumer, producer and admin, and librdkafka's."""
    return frozenset(name for (name,) in rows_of(__package__, "client_settings.txt"))


def check_setting_name(name: str) -> None:
    """Raise ConfigError for a dotted name that neither Kafka Streams nor a client has; prefixed names are legal."""
    if name.startswith((*_PREFIXES, "schema.registry.")) or name in _DOTTED or name in streams_settings():
        return
    setting = other_settings().get(name)
    if setting is not None and setting.answer == "unknown":
        raise ConfigError(f'setting "{name}" does not exist', detail="Kafka has no such setting", hint=setting.words)
    if setting is not None and setting.answer == "not supported":
        raise ConfigError(f'setting "{name}" is not supported', hint=setting.words)
    if name not in client_setting_names():
        known = sorted({*_DOTTED, *streams_settings(), *client_setting_names()})
        detail = "neither Kafka Streams nor its clients have it; give a client's other settings its prefix (consumer.),"
        detail += f" and pass settings that only your code reads as others={{{name!r}: …}}"
        raise unknown("setting", name, known, error=ConfigError, detail=detail)


@dataclass(frozen=True)
class Config:
    """An application's settings; everything has a default.

    ``default_key_serde`` and ``default_value_serde`` are serdes or their names; ``cache_max_bytes`` = 0 switches
    record caches off, so that every update is forwarded at once; the handlers are ``"fail"``, ``"continue"`` or a
    function; ``uncaught_handler`` is what the application does about an error that ended a task: "replace_thread",
    "shutdown_client", "shutdown_application", or a function from the error to one of them; with ``dsl_store_format`` =
    "headers" persistent stores of the DSL keep headers with their rows. Settings that only brokers
    and clients read are kept in ``others`` under their dotted names.

    Units: ``commit_interval_ms`` and ``max_task_idle_ms`` are milliseconds of wall clock, and ``commit_interval`` and
    ``max_task_idle`` name the same as durations; ``cache_max_bytes`` is bytes. The default interval is 100 ms for
    exactly once and 30 s for at least once; ``max_task_idle_ms`` = -1 lets a task continue without waiting.

    Args:
        application_id: id of the application, which prefixes its topics and names its group. Default: None, the
            topology's name.
        bootstrap_servers: brokers as ``host:port,…``. Default: None.
        default_key_serde: serde of keys if none is declared, or its name. Default: text.
        default_value_serde: serde of values if none is declared, or its name. Default: JSON.
        cache_max_bytes: size of the record caches in bytes; 0 switches them off. Default: 0.
        commit_interval_ms: time between commits, in milliseconds. Default: 100 for exactly once, 30,000 for at least
            once.
        max_task_idle_ms: how long a task waits for a partition without records, in milliseconds; -1: never. Default: 0.
        buffered_records_per_partition: records that a task holds for each partition before it stops fetching. Default:
            1,000.
        max_poll_records: maximum number of records per poll. Default: 1,000.
        default_timestamp_extractor: extractor, function or name for topics without their own. Default: None, the
            record's time.
        deserialization_handler: for bytes that cannot be read: "fail", "continue", or a function that gets an
            `ErrorContext` and the error and returns one of the two words or an `ErrorResponse`. Default: "fail".
        processing_handler: the same, for errors of operators and functions. Default: "fail".
        processing_handler_global: use ``processing_handler`` for global tables and stores, too. Default: False.
        production_handler: the same, for records that cannot be written. Default: "fail".
        uncaught_handler: "replace_thread", "shutdown_client", "shutdown_application" or a function. Default:
            "shutdown_client".
        dead_letter_topic: topic for records that failed, if a handler is or returns "fail" or "continue"; an
            `ErrorResponse` has its own `DeadLetter` records. Default: None, they are not kept.
        processing_guarantee: "exactly_once_v2" or "at_least_once". Default: "exactly_once_v2".
        dsl_store_format: "default", or "headers" to keep headers with the rows of the DSL's persistent stores. Default:
            "default".
        others: further settings by their dotted names. Default: none.

    Example:
        >>> Config.of({"application.id": "shop", "statestore.cache.max.bytes": 0}).application_id
        'shop'
    """

    application_id: str | None = None
    bootstrap_servers: str | None = field(default=None, repr=False)  # it may hold a password
    default_key_serde: Serde = field(default_factory=Serdes.string)
    default_value_serde: Serde = field(default_factory=Serdes.json)
    cache_max_bytes: int = 0
    commit_interval_ms: int | None = None
    max_task_idle_ms: int = 0
    buffered_records_per_partition: int = 1_000
    max_poll_records: int = 1_000
    default_timestamp_extractor: Any = None
    deserialization_handler: Handler = "fail"
    processing_handler: Handler = "fail"
    processing_handler_global: bool = False
    production_handler: Handler = "fail"
    uncaught_handler: Any = "shutdown_client"
    dead_letter_topic: str | None = None
    processing_guarantee: str = "exactly_once_v2"
    dsl_store_format: str = "default"
    others: Mapping[str, Any] = field(default_factory=dict, repr=False)  # passwords among them

    def __post_init__(self) -> None:
        expect(self.others, Mapping, "others")
        if self.application_id is not None:
            _check_legal("application id", self.application_id, "part of a topic name")
        if self.dead_letter_topic is not None:
            _check_legal("dead-letter topic", self.dead_letter_topic, "the name of a topic")
            check_resource_name(self.dead_letter_topic, "dead-letter topic", error=ConfigError)
        settings = vars(self)  # of a frozen object, which is not in use yet
        settings |= {name: _serde(settings[name]) for name in ("default_key_serde", "default_value_serde")}
        if self.default_timestamp_extractor is not None:
            settings["default_timestamp_extractor"] = extractor_of(self.default_timestamp_extractor)
        handlers = ("deserialization_handler", "processing_handler", "production_handler")
        settings |= {name: handler_of(settings[name], name) for name in handlers}
        settings["uncaught_handler"] = uncaught_handler_of(self.uncaught_handler)
        expect_known("processing guarantee", [self.processing_guarantee], _GUARANTEES, error=ConfigError)
        settings["dsl_store_format"] = str(self.dsl_store_format).lower()
        expect_known("DSL store format", [self.dsl_store_format], _STORE_FORMATS, error=ConfigError)
        if self.commit_interval_ms is None:
            settings["commit_interval_ms"] = 100 if self.exactly_once else 30_000
        in_flight = self.client_settings("producer").get(_IN_FLIGHT)
        if self.exactly_once and in_flight is not None and whole(_IN_FLIGHT, in_flight) > _MOST_IN_FLIGHT:
            java = f"Can't exceed {_MOST_IN_FLIGHT} when exactly-once processing is enabled"
            raise ConfigError(f'setting "{_IN_FLIGHT}" is {in_flight}: retries could change the order', java=java)
        numbers = ("cache_max_bytes", "commit_interval_ms", "buffered_records_per_partition", "max_poll_records")
        settings |= {name: whole(name, settings[name]) for name in numbers}
        _ = self.replication_factor  # refuses invalid values
        settings["max_task_idle_ms"] = whole("max_task_idle_ms", self.max_task_idle_ms, least=-1)
        settings["processing_handler_global"] = _flag("processing_handler_global", self.processing_handler_global)

    @property
    def exactly_once(self) -> bool:
        """Return whether results become visible together with the offsets that they come from."""
        return self.processing_guarantee == "exactly_once_v2"

    @property
    def replication_factor(self) -> int:
        """Replicas of topics that `deploy` creates (``replication.factor``); -1, the default, asks the broker."""
        replicas = whole("replication.factor", self.others.get("replication.factor", -1), least=-1)
        if replicas == 0:
            raise ConfigError("replication.factor must be at least 1, or -1 for the broker's default, got 0")
        return replicas

    @classmethod
    def of(cls, settings: Config | Mapping[str, Any] | None) -> Config:
        """Make a config from another config, a mapping of Python or dotted names, or nothing.

        Args:
            settings: a `Config`, or settings by their Python or dotted names; None for the defaults.

        Raises: ConfigError for an unknown name, with the nearest known one; names that start with ``producer.``,
        ``consumer.``, ``main.consumer.``, ``restore.consumer.``, ``global.consumer.``, ``admin.`` or ``topic.`` are
        not checked.
        """
        if isinstance(settings, Config):
            return settings
        expect(settings, Mapping | None, "settings")
        known, others = {f.name for f in fields(cls)}, {}
        chosen: dict[str, Any] = {}
        for name, value in sorted((settings or {}).items(), key=lambda each: each[0] not in _OLD):  # new names win
            word = _DOTTED.get(name, name)
            if word in _SPANS:
                chosen[_SPANS[word]] = duration_ms(value, f'setting "{word}"')
            elif word in known:
                chosen[word] = value
            elif "." in name:
                check_setting_name(name)
                _check_like_default(name, value)
                others[name] = value
            else:
                detail = f"{existing(sorted(known), name)}, and Kafka's dotted names"
                raise unknown("setting", name, sorted(known), error=ConfigError, detail=detail)
        return cls(**{**chosen, "others": {**others, **chosen.get("others", {})}})

    def dotted(self) -> dict[str, Any]:
        """Return the settings under Kafka's dotted names."""
        return {**{dotted: getattr(self, name) for dotted, name in _DOTTED.items()}, **self.others}

    def client_settings(self, client: str) -> dict[str, Any]:
        """Return the settings of one client: those with its prefix, and those without a prefix that clients may use.

        Args:
            client: prefix of the client, such as "producer" or "main.consumer".
        """
        known, prefix = streams_settings(), f"{client}."
        plain = {
            name: value
            for name, value in self.others.items()
            if not name.startswith(_PREFIXES) and (name not in known or known[name].answer == "client")
        }
        own = {name.removeprefix(prefix): value for name, value in self.others.items() if name.startswith(prefix)}
        return {**plain, **own}


def _check_legal(kind: str, value: str, use: str) -> None:
    expect(value, str, kind)
    if LEGAL_NAME.fullmatch(value):
        return
    wrong = next((char for char in value if not LEGAL_NAME.fullmatch(char)), "")
    better = "".join(char if LEGAL_NAME.fullmatch(char) else "-" for char in value)
    fact = f'{kind} "{value}" cannot be {use}'
    detail = f'it contains "{wrong}" (U+{ord(wrong):04X})' if wrong else "it is empty"
    raise ConfigError(fact, detail=detail, hint=f'"{better}" would do' if better else "give a name, or None")


def _serde(value: Any) -> object:
    if isinstance(value, str):
        word = re.sub(r".*[.$]", "", value).removesuffix("Serde")
        return serde_named(word[:1].lower() + word[1:])
    return value() if isinstance(value, type) else value


def whole(name: str, value: Any, *, least: int = 0) -> int:
    """Return the whole number that a setting holds, which may be text; raise ConfigError for anything else."""
    try:
        number = int(value)
        if isinstance(value, float) and number != value:
            raise ValueError(value)
    except (OverflowError, TypeError, ValueError):
        raise ConfigError(f'setting "{name}" must be an integer, got "{value}"') from None
    at_least(least, number, f'setting "{name}"')
    return number


def _flag(name: str, value: object) -> bool:
    if str(value).lower() in ("true", "false"):
        return str(value).lower() == "true"
    raise ConfigError(f'setting "{name}" must be true or false, got "{value}"')


def _check_like_default(name: str, value: object) -> None:
    """Check a value if Kafka's default is a number or a flag, even if the setting has no effect here."""
    default = streams_settings()[name].default if name in streams_settings() else ""
    if default in ("true", "false"):
        _flag(name, value)
    elif default.lstrip("-").isdigit():
        whole(name, value, least=-MAX_TIME_MS)
