"""Connection settings: what a user gives as servers, and what may be shown of it."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, TypeVar

from confluent_kafka import KafkaError, KafkaException

from kstreamnb.errors import AccessDeniedError, BrokerError, ConfigError, RecordRefusedError

__all__ = ["Servers", "client", "connection", "kafka_error", "masked", "sendable_time"]

Servers: TypeAlias = str | Mapping[str, Any]
"""``host:port,…``, or librdkafka's settings with ``bootstrap.servers`` among them."""

_NO_ANSWER = {KafkaError._TRANSPORT, KafkaError._TIMED_OUT}  # noqa: SLF001 - librdkafka's own codes have such names
_NO_LOGIN = {KafkaError._AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED}  # noqa: SLF001
_NOT_ALLOWED = {  # by access control
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}
_REFUSED = {  # a record, which is the same when it comes again; and what can be done about it
    KafkaError.MSG_SIZE_TOO_LARGE: 'write less into one record, or raise "max.message.bytes" of the topic and'
    ' deploy(…, producer={"message.max.bytes": …})',
    KafkaError.INVALID_TIMESTAMP: 'mend the timestamp, or the topic\'s "message.timestamp.before.max.ms" and'
    ' "message.timestamp.after.max.ms"',
    KafkaError.INVALID_RECORD: "a compacted topic takes no record without a key",
}
Client = TypeVar("Client")
_LOG = logging.getLogger("kstreamnb.query.kafka")
_SECRET = re.compile(r"password|secret|\.pem|token|oauthbearer\.config|jaas|user\.info|credential", re.IGNORECASE)
_ADDRESS = 'give "host:port", or a dict of librdkafka settings with "bootstrap.servers"'
_USUAL = {"log_level": 2, "reconnect.backoff.max.ms": 1000}  # a broker that was away is found again within a second
_FROM_JAVA = {
    "receive.buffer.bytes": "socket.receive.buffer.bytes",
    "send.buffer.bytes": "socket.send.buffer.bytes",
    "buffer.memory": "queue.buffering.max.kbytes",
}


def _with_fields(record: logging.LogRecord) -> bool:
    """What librdkafka says, as the journal of queries has it."""
    record.fields = {"event": "kafka says", "message": record.getMessage()}
    return True


_LOG.addHandler(logging.NullHandler())
_LOG.addFilter(_with_fields)


def connection(servers: Servers, *, defaults: Mapping[str, object] | None = None, **settings: object) -> dict[str, Any]:
    """Settings for a client: the user's over ``defaults``, and the given ones (``_`` for ``.``) over all.

    Example:
        >>> sorted(connection({"bootstrap.servers": "broker:9092", "receive.buffer.bytes": 65536}))
        ['bootstrap.servers', 'log_level', 'reconnect.backoff.max.ms', 'socket.receive.buffer.bytes']
        >>> connection({"bootstrap.servers": "broker:9092", "buffer.memory": 33554432})["queue.buffering.max.kbytes"]
        32768
    """
    if not isinstance(servers, str | Mapping):
        raise ConfigError(f'type "{type(servers).__name__}" is no address of a broker', hint=_ADDRESS)
    given: dict[str, Any] = {"bootstrap.servers": servers} if isinstance(servers, str) else dict(servers)
    given = dict(_translated(name, value) for name, value in given.items())
    if not given.get("bootstrap.servers"):
        raise ConfigError('setting "bootstrap.servers" is missing', hint=_ADDRESS)
    fixed = {name.replace("_", "."): value for name, value in settings.items()}
    return {**_USUAL, **(defaults or {}), **given, **fixed}


def client(kind: Callable[[dict[str, Any]], Client], settings: Mapping[str, Any]) -> Client:
    """A client of librdkafka; raises ConfigError for settings that it does not take.

    What librdkafka has to say goes to the log of queries and not to the terminal, unless the settings have a logger.

    Example:
        >>> from confluent_kafka import Producer
        >>> try:
        ...     client(Producer, {"bootstrap.servers": "broker:9092", "acks": "seven"})
        ... except ConfigError as error:
        ...     print(error)
        Kafka's client does not take its settings: Invalid value for configuration property "request.required.acks"
    """
    try:
        return kind({"logger": _LOG, **settings})
    except KafkaException as error:
        raise ConfigError(
            f"Kafka's client does not take its settings: {error.args[0].str()}",
            hint="names and values are those of librdkafka, which differ from Java's here and there",
        ) from error


def _translated(name: str, value: Any) -> tuple[str, Any]:
    """A setting of Java's clients as librdkafka has it."""
    if name == "buffer.memory":
        value = max(1, int(value) // 1024)
    if name == "batch.size" and not int(value):  # in Java no batches at all, here not allowed
        return "batch.num.messages", 1
    return _FROM_JAVA.get(name, name), value


def masked(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings without their secrets, for texts and displays.

    Example:
        >>> masked({"bootstrap.servers": "broker:9092", "sasl.password": "s3cret"})
        {'bootstrap.servers': 'broker:9092', 'sasl.password': '***'}
    """
    return {name: "***" if _SECRET.search(name) and value else value for name, value in settings.items()}


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
    where = f' at "{connection(servers)["bootstrap.servers"]}"' if servers is not None else ""
    text = text if why is None else f"{text}; {why.str()}"
    code = reason.code() if isinstance(reason, KafkaError) else None
    denied = code in _NOT_ALLOWED or code in _NO_LOGIN or (why is not None and why.code() in _NO_LOGIN)
    kind = AccessDeniedError if denied else RecordRefusedError if code in _REFUSED else BrokerError
    hint = hint if hint and kind is BrokerError else _hint(code, why)
    return kind(f"{what} failed{where}", detail=f"Kafka says: {text}", hint=hint)


def _hint(code: int | None, why: KafkaError | None) -> str | None:
    if code in _REFUSED:
        return _REFUSED[code]
    if code in _NOT_ALLOWED:
        return "grant the permission; RECIPES.md lists what a deployment needs"
    if code in _NO_ANSWER and why is None:
        return "look at the address and security.protocol: a broker hangs up on who should sign in and does not"
    return None


def sendable_time(timestamp_ms: int) -> int:
    """A timestamp that librdkafka sends as it is: it takes 0 for "now", so the epoch itself becomes 1 ms."""
    return timestamp_ms or 1
