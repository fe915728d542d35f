"""Error handlers for records that cannot be read, processed or written: fail, continue, or keep a dead letter.

A handler is ``"fail"``, ``"continue"`` or a function ``(context, error) -> answer``; the answer is one of the two
words or an `ErrorResponse`, which may carry records for a dead-letter topic. With ``dead_letter_topic`` set, the two
words then also keep every failed record there.

An error that no handler accepts ends the task. Then the uncaught handler says what the application does:
`uncaught_answer`.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

from kstreamnb.core.codec import encoded
from kstreamnb.core.record import Headers, Record
from kstreamnb.core.signatures import name_of, taking
from kstreamnb.errors import ConfigError
from kstreamnb.hints import message_of


class RecordProduced(NamedTuple):
    """A record for a topic; key and value are in wire form."""

    topic: str
    partition: int
    timestamp: int
    key: Any
    value: Any
    headers: Headers = ()


_JAVA_HANDLERS = {
    "LogAndContinueExceptionHandler": "continue",
    "LogAndContinueProcessingExceptionHandler": "continue",
    "LogAndFailExceptionHandler": "fail",
    "LogAndFailProcessingExceptionHandler": "fail",
    "DefaultProductionExceptionHandler": "fail",
}


@dataclass(frozen=True)
class ErrorContext:
    """The node that failed and the source record that was being processed.

    ``stage`` is "deserialization", "processing", "punctuation" or "production". ``raw_key`` and ``raw_value`` are the
    bytes of the source record; in a punctuator there is none, and topic, partition and offset are None, -1, -1.
    ``record`` is the record at the node: its key and value are objects, those of a table's node `Change`; None in a
    punctuator itself, and for bytes that cannot be read. ``target_topic`` is the topic of a sink that always writes to
    the same one.
    """

    stage: str
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


@dataclass(frozen=True)
class ErrorResponse:
    """A handler's answer, with records for dead-letter topics."""

    action: Literal["fail", "continue"]
    dead_letters: tuple[RecordProduced, ...] = ()


Handler: TypeAlias = "str | Callable[[ErrorContext, BaseException], ErrorResponse | str]"


def handler_of(value: Any, setting: str) -> Handler:
    """Return a handler from a word, a function, or the class name that Kafka Streams knows it by."""
    if callable(value):
        return taking(value, "context", "error", what=f"function as {setting}")  # type: ignore[no-any-return]
    word = _JAVA_HANDLERS.get(str(value).rsplit(".", 1)[-1], value)
    if word not in ("fail", "continue"):
        raise ConfigError(f'setting "{setting}" cannot be "{value}"', hint='use "fail", "continue" or a function')
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


def answer_of(
    handler: Handler, context: ErrorContext, error: BaseException, dead_letter_topic: str | None
) -> ErrorResponse:
    """Ask a handler about an error.

    Raises: ConfigError when a handler fails, from its error and at its line, or does not answer.
    """
    if isinstance(handler, str):
        action: Any = handler
        letters = () if dead_letter_topic is None else (dead_letter(dead_letter_topic, context, error),)
        return ErrorResponse(action, letters)
    try:
        answer = handler(context, error)
    except Exception as own:
        fact = (
            f'error handler "{name_of(handler)}" failed with {type(own).__name__}, asked about {type(error).__name__}'
        )
        raise ConfigError(fact, hint="fix the handler").with_traceback(own.__traceback__) from own
    if isinstance(answer, ErrorResponse):
        return answer
    if answer not in ("fail", "continue"):
        fact = f'error handler "{name_of(handler)}" answered {answer!r:.100} about {type(error).__name__}'
        raise ConfigError(fact, hint='answer "fail", "continue" or an ErrorResponse')
    return ErrorResponse(answer)  # type: ignore[arg-type]


def dead_letter(topic: str, context: ErrorContext, error: BaseException) -> RecordProduced:
    """Return the source record unchanged for a dead-letter topic, with the error in its headers."""
    kind = type(error)
    about = {
        "exception": f"{kind.__module__}.{kind.__qualname__}".removeprefix("builtins."),
        "message": message_of(error),
        "stacktrace": "".join(traceback.format_exception(error)),
        "topic": context.topic or "null",
        "partition": str(context.partition),
        "offset": str(context.offset),
    }
    headers = tuple((f"__streams.errors.{name}", text.encode()) for name, text in about.items())
    wire = encoded(context.raw_key), encoded(context.raw_value)
    return RecordProduced(topic, 0, context.timestamp, *wire, (*context.headers, *headers))
