"""Error handlers for records that cannot be read, processed or written: fail, continue, or keep a dead letter.

A handler is ``"fail"``, ``"continue"`` or a function ``(context, error) -> answer``; the answer is one of the two
words or an `ErrorResponse`, which says itself which records are kept. With ``dead_letter_topic`` set, the two words
keep every failed record there.

An error that no handler accepts ends the task. Then the uncaught handler says what the application does:
`uncaught_answer`.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

from kstreamnb.core.arguments import expect
from kstreamnb.core.codec import encoded, partition_for
from kstreamnb.core.names import check_topic_name
from kstreamnb.core.record import AnyHeaders, Headers, Record, headers_of
from kstreamnb.core.signatures import method_hint, name_of, taking
from kstreamnb.core.time import time_ms
from kstreamnb.data_files import rows_of
from kstreamnb.errors import ConfigError, EngineError
from kstreamnb.hints import detailed


class RecordProduced(NamedTuple):
    """A record for a topic; key and value are in wire form."""

    topic: str
    partition: int
    timestamp: int
    key: Any
    value: Any
    headers: Headers = ()


@dataclass(frozen=True)
class DeadLetter:
    """A record that an error handler has written to a topic, usually one for records that failed.

    Args:
        topic: name of the topic.
        key: bytes of the key, or None.
        value: bytes of the value, or None.
        timestamp: time of the record, in epoch milliseconds.
        headers: pairs of a name and bytes, or a mapping of names to bytes. Default: none.
        partition: number of the partition. Default: None, the key chooses, as in Kafka's producer.

    Example:
        >>> DeadLetter("refused", b"k", None, 7, {"why": b"no price"}).headers
        (('why', b'no price'),)
    """

    topic: str
    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: AnyHeaders = ()
    partition: int | None = None

    def __post_init__(self) -> None:
        check_topic_name(self.topic)
        for name in ("key", "value"):
            expect(getattr(self, name), bytes | None, f"{name} of a dead letter")
        object.__setattr__(self, "timestamp", time_ms(self.timestamp, "timestamp of a dead letter"))
        object.__setattr__(self, "headers", headers_of(self.headers))


Stage: TypeAlias = Literal["deserialization", "processing", "punctuation", "production"]


@dataclass(frozen=True)
class ErrorContext:
    """The node that failed and the source record that was being processed: the first argument of an error handler.

    Args:
        stage: "deserialization", "processing", "punctuation" or "production".
        node: name of the node.
        task_id: id of the task, such as "0_1".
        topic: topic of the source record; None in a punctuator.
        partition: partition of the source record; -1 in a punctuator.
        offset: offset of the source record; -1 in a punctuator.
        timestamp: time of the record at the node, in epoch milliseconds.
        headers: headers of the record at the node.
        raw_key: bytes of the source record's key; None in a punctuator.
        raw_value: bytes of the source record's value; None in a punctuator.
        record: record at the node with key and value as objects, those of a table's node `Change`. Default: None, in a
            punctuator itself and for bytes that cannot be read.
        target_topic: topic of a sink that always writes to the same one. Default: None, at other nodes.

    Example:
        >>> context = ErrorContext("processing", "prices", "0_0", "in", 0, 7, 1000, (), b"k", b"?")
        >>> letter = context.dead_letter("refused", ValueError("no price"))
        >>> letter.value, dict(letter.headers)["__streams.errors.offset"]
        (b'?', b'7')
    """

    stage: Stage
    node: str
    task_id: str
    topic: str | None
    partition: int
    offset: int
    timestamp: int
    headers: Headers
    raw_key: bytes | None
    raw_value: bytes | None
    record: Record[Any, Any] | None = None
    target_topic: str | None = None

    def dead_letter(self, topic: str, error: BaseException) -> DeadLetter:
        """Return the source record unchanged for a topic, with the error in the headers that Kafka Streams adds.

        Args:
            topic: name of the topic.
            error: the error that the handler got.
        """
        kind = type(error)
        about = {
            "exception": f"{kind.__module__}.{kind.__qualname__}".removeprefix("builtins."),
            "message": detailed(error),
            "stacktrace": "".join(traceback.format_exception(error)),
            "topic": self.topic,  # None in a punctuator
            "partition": str(self.partition),
            "offset": str(self.offset),
        }
        headers = ((f"__streams.errors.{of}", None if text is None else text.encode()) for of, text in about.items())
        return DeadLetter(topic, self.raw_key, self.raw_value, self.timestamp, (*self.headers, *headers))


@dataclass(frozen=True)
class ErrorResponse:
    """An error handler's answer that chooses the records to keep; without any, nothing is written.

    Args:
        action: "fail", which ends the task, or "continue", which drops the record.
        dead_letters: records to write. Default: none, not even to ``dead_letter_topic``.

    Example:
        >>> def keep_texts(context: ErrorContext, error: BaseException) -> ErrorResponse:
        ...     letters = [context.dead_letter("texts", error)] if context.topic == "notes" else []
        ...     return ErrorResponse("continue", letters)
    """

    action: Literal["fail", "continue"]
    dead_letters: Iterable[DeadLetter] = ()

    def __post_init__(self) -> None:
        if self.action not in ("fail", "continue"):
            raise ConfigError(f'expected the action "fail" or "continue", got "{self.action}"')
        expect(self.dead_letters, Iterable, "dead_letters")
        object.__setattr__(self, "dead_letters", tuple(self.dead_letters))
        for letter in self.dead_letters:
            expect(letter, DeadLetter, "a dead letter")


Handler: TypeAlias = "str | Callable[[ErrorContext, BaseException], ErrorResponse | str]"


def handler_of(value: object, setting: str) -> Handler:
    """Return a handler from a word, a function, or the class name that Kafka Streams knows it by."""
    if callable(value):
        return taking(value, "context", "error", what=f"function as {setting}")
    word = value
    if str(value).endswith("ExceptionHandler"):
        word = dict(rows_of(__package__, "java_handlers.tsv")).get(str(value).rsplit(".", 1)[-1], value)
    if word not in ("fail", "continue"):
        hint = method_hint(value) or 'use "fail", "continue" or a function of (context, error)'
        raise ConfigError(f'setting "{setting}" cannot be "{getattr(value, "__name__", value)}"', hint=hint)
    return str(word)


UncaughtAnswer: TypeAlias = Literal["replace_thread", "shutdown_client", "shutdown_application"]
"""Start again from the last commit, end this client, or end every client of the application."""

UncaughtHandler: TypeAlias = "UncaughtAnswer | Callable[[BaseException], UncaughtAnswer]"


def uncaught_handler_of(value: object) -> UncaughtHandler:
    """Return an uncaught handler from a function, or from one of the three answers in Python's or Java's spelling."""
    return taking(value, "error", what="function as uncaught_handler") if callable(value) else _uncaught(value)


def uncaught_answer(handler: UncaughtHandler, error: BaseException) -> UncaughtAnswer:
    """Ask what the application does about an error that ended a task."""
    return _uncaught(handler(error)) if callable(handler) else handler


def _uncaught(answer: object) -> UncaughtAnswer:
    word = str(answer).rsplit(".", 1)[-1].lower()
    if word not in get_args(UncaughtAnswer):
        known = ", ".join(f'"{each}"' for each in get_args(UncaughtAnswer))
        raise ConfigError(f'an uncaught handler cannot answer "{answer}"', hint=f"use one of {known}")
    return word  # type: ignore[return-value]


def letter_row(letter: DeadLetter, partitions: int) -> RecordProduced:
    """Return a dead letter with its partition among those of its topic.

    Raises: EngineError when the handler chose a partition that does not exist.
    """
    topic, partition = letter.topic, letter.partition
    if partition is None:
        partition = 0 if letter.key is None else partition_for(letter.key, partitions)
    if not 0 <= partition < partitions:
        fact = f'topic "{topic}" has {partitions} partitions'
        raise EngineError(f"an error handler chose partition {partition} for a dead letter", detail=fact)
    wire = encoded(letter.key), encoded(letter.value)
    return RecordProduced(topic, partition, letter.timestamp, *wire, headers_of(letter.headers))


def answer_of(
    handler: Handler, context: ErrorContext, error: BaseException, dead_letter_topic: str | None
) -> ErrorResponse:
    """Ask a handler about an error; if it answers with a word, the record goes to the dead-letter topic, if any.

    A lack of memory is not a failure of the record, so no handler is asked, as about Java's ``OutOfMemoryError``.

    Raises: ConfigError when a handler fails, from its error and at its line, or does not answer.
    """
    answer: object = "fail" if isinstance(error, MemoryError) else handler
    java = f"Fatal user code error in {context.stage.replace('punctuation', 'processing')} error callback"
    if callable(answer):
        try:
            answer = answer(context, error)
        except Exception as own:
            fact = f'error handler "{name_of(handler)}" failed with {type(own).__name__}'
            fact += f", asked about {type(error).__name__}"
            raise ConfigError(fact, hint="fix the handler", java=java).with_traceback(own.__traceback__) from own
    if isinstance(answer, ErrorResponse):
        return answer
    if answer not in ("fail", "continue"):
        shown = f'"{answer}"' if isinstance(answer, str) else type(answer).__name__  # it may be the record
        fact = f'error handler "{name_of(handler)}" answered {shown} about {type(error).__name__}'
        raise ConfigError(fact, hint='answer "fail", "continue" or an ErrorResponse', java=java)
    letters = () if dead_letter_topic is None else (context.dead_letter(dead_letter_topic, error),)
    return ErrorResponse(answer, letters)
