"""Connection settings of clients: given by users, translated for librdkafka, shown without secrets."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TypeAlias, TypeVar

from confluent_kafka import KafkaError, KafkaException, Producer

from kstreamnb.client_settings import for_librdkafka
from kstreamnb.errors import AccessDeniedError, BrokerError, ConfigError, RecordRefusedError
from kstreamnb.masking import without_secrets

Servers: TypeAlias = str | Mapping[str, object]
"""``host:port,…``, or librdkafka's settings with ``bootstrap.servers`` among them."""

_NO_ANSWER = {KafkaError._TRANSPORT, KafkaError._TIMED_OUT}  # noqa: SLF001 - librdkafka's own codes have such names
_NO_LOGIN = {KafkaError._AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED}  # noqa: SLF001
_NOT_ALLOWED = {  # by access control
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}
_REFUSED = {  # a record, which would be the same in a second attempt; with the way out
    KafkaError.MSG_SIZE_TOO_LARGE: 'write less into one record, or raise "max.message.bytes" of the topic and'
    ' "message.max.bytes" ("max.request.size" in Java) of the producer: deploy(…, producer={"message.max.bytes": …})',
    KafkaError.INVALID_TIMESTAMP: 'correct the timestamp, or the topic\'s "message.timestamp.before.max.ms" and'
    ' "message.timestamp.after.max.ms"',
    KafkaError.INVALID_RECORD: "give the record a key: its topic is compacted",
}
_MISSING = "create it with ks.kafka.Admin(servers).create_topic(…); a topic may also be hidden from this user"
_HINTS = {
    **_REFUSED,
    **dict.fromkeys((KafkaError._UNKNOWN_TOPIC, KafkaError.UNKNOWN_TOPIC_OR_PART), _MISSING),  # noqa: SLF001
    **dict.fromkeys(_NOT_ALLOWED, "grant the permission; RECIPES.md lists what a deployment needs"),
}
Client = TypeVar("Client")
_FENCED = re.compile("fence|newer producer|old epoch", re.IGNORECASE)
LOG = logging.getLogger("kstreamnb.query.kafka")
_ADDRESS = 'give "host:port", or a dict of librdkafka settings with "bootstrap.servers"'
_USUAL = {"log_level": 2, "reconnect.backoff.max.ms": 1000}  # a broker that was away is found again within a second


def _with_fields(record: logging.LogRecord) -> bool:
    """Turn a message of librdkafka into an entry of the log of queries."""
    message = without_secrets(record.getMessage())
    record.fields = {"event": "kafka says", "message": message}
    if message.startswith(("FATAL ", "TXNERR ")) and _FENCED.search(message):  # the writer raises it as FencedError
        record.levelno, record.levelname = logging.DEBUG, "DEBUG"
    return LOG.isEnabledFor(record.levelno)


LOG.addHandler(logging.NullHandler())
LOG.addFilter(_with_fields)


def connection(
    servers: Servers, *, defaults: Mapping[str, object] | None = None, **settings: object
) -> dict[str, object]:
    """Merge the settings of a client: the user's replace ``defaults``, and ``settings`` (``_`` for ``.``) replace both.

    Example:
        >>> sorted(connection({"bootstrap.servers": "broker:9092", "receive.buffer.bytes": 65536}))
        ['bootstrap.servers', 'log_level', 'reconnect.backoff.max.ms', 'socket.receive.buffer.bytes']
        >>> connection({"bootstrap.servers": "broker:9092", "buffer.memory": 33554432})["queue.buffering.max.kbytes"]
        32768
    """
    given = for_librdkafka(as_settings(servers))
    if not given.get("bootstrap.servers"):
        raise ConfigError('setting "bootstrap.servers" is missing', hint=_ADDRESS)
    fixed = {name.replace("_", "."): value for name, value in settings.items()}
    return {**_USUAL, **(defaults or {}), **given, **fixed}


def as_settings(servers: Servers) -> dict[str, object]:
    """Return the user's settings as they are; raises ConfigError for other types."""
    if not isinstance(servers, str | Mapping):
        raise ConfigError(f'expected the address of a broker, got a "{type(servers).__name__}"', hint=_ADDRESS)
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
        raise ConfigError(
            f"Kafka's client refuses its settings: {error.args[0].str()}",
            hint="names and values are those of librdkafka, some of which differ from Java's",
        ) from error
    except SystemError as error:  # a text that has no UTF-8
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
    what: str,
    error: Exception | KafkaError,
    servers: Servers | None = None,
    *,
    why: KafkaError | None = None,
    hint: str | None = None,
) -> BrokerError:
    """Make the error of a failed call, by its kind, with Kafka's own words and those about the connection if known."""
    reason = error.args[0] if isinstance(error, KafkaException) else error
    text = reason.str() if isinstance(reason, KafkaError) else str(reason) or "no answer in time"
    where = f' at "{shown_servers(servers)}"' if servers is not None else ""
    text = without_secrets(text if why is None else f"{text}; {why.str()}")
    code = reason.code() if isinstance(reason, KafkaError) else None
    denied = code in _NOT_ALLOWED or code in _NO_LOGIN or (why is not None and why.code() in _NO_LOGIN)
    kind = AccessDeniedError if denied else RecordRefusedError if code in _REFUSED else BrokerError
    hint = hint if hint and kind is BrokerError else _hint(code, why)
    return kind(f"{what} failed{where}", detail=f"Kafka says: {text}", hint=hint)


def _hint(code: int | None, why: KafkaError | None) -> str | None:
    if why is not None and is_unreachable(why):
        return "start the broker, or correct the address; ks.kafka.local_broker() starts one on this machine"
    if code in _NO_ANSWER and why is None:
        return "check the address and security.protocol: brokers close connections of clients that do not sign in"
    return _HINTS.get(code or KafkaError.NO_ERROR)


def is_unreachable(error: KafkaError) -> bool:
    """Tell whether nothing listens at the address, or its name is unknown: known at once, without waiting."""
    return error.code() == KafkaError._RESOLVE or "Connection refused" in error.str()  # noqa: SLF001


def sendable_time(timestamp_ms: int) -> int:
    """Return a timestamp that librdkafka sends unchanged: it reads 0 as "now", so the epoch itself becomes 1 ms."""
    return timestamp_ms or 1
