"""Connection settings of clients: given by users, translated for librdkafka, shown without secrets."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TypeAlias, TypeVar

from confluent_kafka import KafkaError, KafkaException, Producer

from kstreamnb.client_settings import for_librdkafka
from kstreamnb.core.arguments import expect
from kstreamnb.data_files import rows_of
from kstreamnb.errors import AccessDeniedError, BrokerError, ConfigError, RecordRefusedError
from kstreamnb.masking import clean, without_secrets

Servers: TypeAlias = str | Mapping[str, object]
"""``host:port,…``, or librdkafka's settings with ``bootstrap.servers`` among them."""

_CODES = rows_of(__package__, "error_codes.tsv")
_HINTS = {getattr(KafkaError, name): hint for names, _, *hints in _CODES for name in names.split() for hint in hints}
_PERMISSIONS = rows_of(__package__, "permissions.tsv")
Client = TypeVar("Client")
_FENCED = re.compile("fence|newer producer|old epoch", re.IGNORECASE)
LOG = logging.getLogger("kstreamnb.query.kafka")
_ADDRESS = 'give "host:port", or a dict of librdkafka settings with "bootstrap.servers"'
_USUAL = {"log_level": 2, "reconnect.backoff.max.ms": 1000}  # a broker that was away is found again within a second


def _with_fields(record: logging.LogRecord) -> bool:
    """Turn a message of librdkafka into an entry of the log of queries."""
    message = clean(without_secrets(record.getMessage()))
    record.msg, record.args, record.fields = message, (), {"event": "kafka says", "message": message}
    if message.startswith(("FATAL ", "TXNERR ")) and _FENCED.search(message):  # the writer raises it as FencedError
        record.levelno, record.levelname = logging.DEBUG, "DEBUG"
    return LOG.isEnabledFor(record.levelno)


def codes(meaning: str) -> set[int]:
    """Return the error codes with a meaning, which is a word of ``error_codes.tsv``.

    Example:
        >>> sorted(KafkaError(code).name() for code in codes("refused"))
        ['INVALID_RECORD', 'INVALID_TIMESTAMP', 'MSG_SIZE_TOO_LARGE']
    """
    rows = (names.split() for names, meanings, *_ in _CODES if meaning in meanings.split())
    return {getattr(KafkaError, name) for names in rows for name in names}


_REFUSED, _NO_LOGIN, _NO_ANSWER = codes("refused"), codes("no-login"), codes("no-answer")
_DENIED = _NO_LOGIN | codes("denied")
LOG.addHandler(logging.NullHandler())
LOG.addFilter(_with_fields)


def connection(servers: Servers, *, defaults: Mapping[str, object] | None = None, **fixed: object) -> dict[str, object]:
    """Merge the settings of a client: the user's replace ``defaults``, and ``fixed`` ones (``_`` for ``.``) both.

    Example:
        >>> sorted(connection({"bootstrap.servers": "broker:9092", "receive.buffer.bytes": 65536}))
        ['bootstrap.servers', 'log_level', 'reconnect.backoff.max.ms', 'socket.receive.buffer.bytes']
        >>> connection({"bootstrap.servers": "broker:9092", "buffer.memory": 33554432})["queue.buffering.max.kbytes"]
        32768
    """
    given = for_librdkafka(as_settings(servers))
    if not given.get("bootstrap.servers"):
        raise ConfigError('setting "bootstrap.servers" is missing', hint=_ADDRESS)
    own = {name.replace("_", "."): value for name, value in fixed.items()}
    return {**_USUAL, **(defaults or {}), **given, **own}


def as_settings(servers: Servers) -> dict[str, object]:
    """Return the user's settings as they are; raises ConfigError for other types."""
    expect(servers, str | Mapping, "address of a broker", hint=_ADDRESS)
    return {"bootstrap.servers": servers} if isinstance(servers, str) else dict(servers)


def client(kind: Callable[[dict[str, object]], Client], settings: Mapping[str, object]) -> Client:
    """Make a client of librdkafka; raises ConfigError for settings that it refuses.

    Messages of librdkafka go to the log of queries and not to the terminal, unless the settings have a logger.

    Example:
        >>> from confluent_kafka import Producer
        >>> try:
        ...     client(Producer, {"bootstrap.servers": "broker:9092", "acks": "seven"})
        ... except ConfigError as error:
        ...     print(error)
        Kafka's client refuses its settings: Invalid value for configuration property "request.required.acks"
    """
    try:
        return kind({"logger": LOG, **settings})
    except KafkaException as error:
        hint = "names and values are librdkafka's, which may differ from Java's; config takes those of Kafka Streams"
        raise ConfigError(f"Kafka's client refuses its settings: {error.args[0].str()}", hint=hint) from error
    except SystemError as error:  # a text that cannot be encoded as UTF-8
        raise ConfigError(f"Kafka's client refuses its settings: {error.__cause__}") from error


def await_broker(producer: Producer, topic: str) -> None:
    """Wait up to a second for a broker: a new producer that has a connection gets its id at once, else 0.5 s later."""
    with suppress(KafkaException):  # what the producer does next has more patience, and says what is wrong
        producer.list_topics(topic, timeout=1.0)


def shown_servers(servers: Servers) -> str:
    """Return the addresses of a cluster for texts."""
    return without_secrets(str(as_settings(servers).get("bootstrap.servers")))


def about_topic(error: KafkaError, topic: str) -> KafkaException:
    """Return an error of Kafka's with the topic in its text, which most of them do not name."""
    return KafkaException(KafkaError(error.code(), f'{error.str()} (topic "{topic}")'))


def kafka_error(
    what: str, error: Exception | KafkaError, broker: Servers, *, why: KafkaError | None = None, hint: str | None = None
) -> BrokerError:
    """Make the error of a failed call, by its kind, with Kafka's own words and those about the connection if known."""
    reason = error.args[0] if isinstance(error, KafkaException) else error
    text = reason.str() if isinstance(reason, KafkaError) else str(reason) or "no answer in time"
    text = without_secrets(text if why is None else f"{text}; {why.str()}")
    code = reason.code() if isinstance(reason, KafkaError) else None
    denied = code in _DENIED or (why is not None and why.code() in _NO_LOGIN)
    kind = AccessDeniedError if denied else RecordRefusedError if code in _REFUSED else BrokerError
    hint = hint if hint and kind is BrokerError else _hint(code, why)
    permission = next((each for words, each in _PERMISSIONS if what.startswith(words)), "READ")
    hint = hint and hint.replace("the permission", permission)
    return kind(f'{what} failed at "{shown_servers(broker)}"', detail=f"Kafka says: {text}", hint=hint)


def _hint(code: int | None, why: KafkaError | None) -> str | None:
    if why is not None and is_unreachable(why):
        return "start the broker, or correct the address; ks.kafka.local_broker() starts one on this machine"
    if code in _NO_ANSWER and (why is None or why.code() in _NO_ANSWER):
        return "check the address and security.protocol: brokers close connections of clients that do not sign in"
    return _HINTS.get(code or KafkaError.NO_ERROR) or (None if why is None else _HINTS.get(why.code()))


def is_unreachable(error: KafkaError) -> bool:
    """Return whether nothing listens at the address, or its name is unknown: known at once, without waiting."""
    return error.code() == KafkaError._RESOLVE or "Connection refused" in error.str()  # noqa: SLF001


def sendable_time(timestamp_ms: int) -> int:
    """Return a timestamp that librdkafka sends unchanged: it reads 0 as "now", so the epoch itself becomes 1 ms."""
    return timestamp_ms or 1
