"""Words for errors about names that do not exist: the nearest known one, and the list of all."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:  # errors use this module
    from kstreamnb.errors import KStreamError
    from kstreamnb.source_location import SourceLocation

_SERDE = 'pass the serde itself, such as "string", or ks.Serdes.long()'
_HINTS = {
    "StreamsConfig Properties": 'write settings as a dict: {"application.id": "shop", "statestore.cache.max.bytes": 0}',
    "KafkaStreams": "ks.deploy(topology, …) runs it on Spark, ks.TopologyTestDriver(topology) in this process",
    "KeyValue": "write a pair as a tuple: (key, value)",
    "Duration TimeUnit ChronoUnit": 'write a duration as a text such as "5s", or as a timedelta',
    "Instant": 'write a time as epoch milliseconds, as a text such as "2026-01-01T09:00Z", or as a datetime',
    "Collections Arrays List Set": 'write a list: ["orders", "returns"]',
    "AutoOffsetReset": 'name it: builder.stream("orders", offset_reset="earliest")',
    "LogAndContinueExceptionHandler": 'write config={"deserialization.exception.handler": "continue"}',
    "WindowedSerdes": "ks.Serdes.time_windowed(…) and ks.Serdes.session_windowed(…) make them",
    "window": "a windowed key has .key, .start and .end (ms)",
    "timestamp": "record.timestamp is the time of a record, context.current_stream_time_ms() that of the task",
    "TestRecord": 'pipe_input("key", "value", at=5, headers={"name": b"value"}) takes its parts',
    "QueryableStoreTypes StoreQueryParameters": 'ask by name: query.store("counts"), driver.store("counts")',
    "Headers RecordHeaders add remove lastHeader last_header headers toArray to_array get items": (
        'headers are pairs of a name and bytes: read dict(record.headers).get("name"), '
        'add with record.with_headers((*record.headers, ("name", b"value")))'
    ),
    "Transformer": "write a ks.Processor for process()",
    "ValueTransformer ValueTransformerWithKey": "write a ks.FixedKeyProcessor for process_values(): it keeps keys",
    "transform flatTransform": "process(…) runs a ks.Processor, which may forward any number of records",
    "transformValues": "process_values(…) runs a ks.FixedKeyProcessor",
    "through": 'repartition(name="…") writes to a topic and reads it again',
    "branch": 'split().branch(predicate, name="…").default_branch() routes each record to one branch',
    "suppress": "suppress() is a method of a table: call it before to_stream()",
    "BufferConfig": "ks.BufferConfig has it",
    "local_broker": "ks.kafka.local_broker() starts one on this machine",
}
_FROM_JAVA = {name: hint for names, hint in _HINTS.items() for name in names.split()}
"""Hints for names of Java that have no counterpart of the same name."""

Raised = TypeVar("Raised", bound="KStreamError")


def without_settings(props: object) -> str:
    """Return what to write instead of Java's ``build(props)``.

    Example:
        >>> without_settings({"topology.optimization": "all"})
        'write build(optimize="all"), and pass settings as config= to the driver, ks.replay, ks.run or ks.deploy'
    """
    wanted = props.get("topology.optimization", False) if isinstance(props, Mapping) else props
    shown = f'"{wanted}"' if isinstance(wanted, str) else wanted
    return f"write build(optimize={shown}), and pass settings as config= to the driver, ks.replay, ks.run or ks.deploy"


def unknown(
    kind: str,
    name: object,
    known: Iterable[object],
    *,
    error: type[Raised],
    detail: str | None = None,
    hint: str | None = None,
    origin: SourceLocation | None = None,
    java: str | None = None,
) -> Raised:
    """Make the error for a name that does not exist.

    Args:
        kind: what is looked for, such as "store".
        name: the name that was given.
        known: the names that exist.
        error: the class of the error.
        detail: replaces the list of the names that exist.
        hint: follows "did you mean …?", or replaces it if no known name is near.
        origin: the user's line.
        java: the text of Kafka Streams for the same mistake.

    Example:
        >>> from kstreamnb.errors import StateError
        >>> error = unknown("store", "cuonts", ["counts", "totals"], error=StateError)
        >>> print(error, *error.__notes__, sep=chr(10))
        there is no store "cuonts"
        Detail: there are counts, totals
        Hint: did you mean "counts"?
        More: https://kstreamnb.github.io/kstreamnb/errors/stateerror.html
    """
    names = [str(each) for each in known]
    return error(
        f'there is no {kind} "{name}"',
        detail=detail or existing(names),
        hint=" Otherwise ".join(filter(None, (did_you_mean(name, names), hint))) or None,
        origin=origin,
        java=java,
    )


def existing(names: Iterable[object]) -> str:
    """List the names that exist, for the detail of an error.

    Example:
        >>> existing(["counts", "totals"]), existing(["counts"]), existing([])
        ('there are counts, totals', 'there is counts', 'there are none')
    """
    texts = [str(each) for each in names]
    return f"{'there is' if len(texts) == 1 else 'there are'} {', '.join(texts) or 'none'}"


def did_you_mean(word: object, known: Iterable[str]) -> str | None:
    """Return the hint that names the known word nearest to *word*, None if none is near.

    Example:
        >>> did_you_mean("cuonts", ["counts", "totals"])
        'did you mean "counts"?'
    """
    near = difflib.get_close_matches(str(word), list(known), 1)
    return f'did you mean "{near[0]}"?' if near else None


def from_java(name: str, known: Iterable[str]) -> str | None:
    """Return the hint for a name in Java's spelling, None if it is not one.

    Example:
        >>> from_java("persistentKeyValueStore", ["persistent_key_value_store"])
        'did you mean "persistent_key_value_store"?'
        >>> from_java("window", ["key", "start", "end"])
        'a windowed key has .key, .start and .end (ms)'
    """
    ours = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
    if ours != name and ours in known:
        return did_you_mean(ours, [ours])
    return _FROM_JAVA.get(name) or (_SERDE if name.lower().endswith("serializer") else None)


def for_python(error: BaseException, line: str, known: Iterable[str] = ()) -> str | None:
    """Return the hint for an error of Python's own about a call in Java's shape, None for any other.

    Args:
        error: the error.
        line: the user's line.
        known: public names of the kit, which may be used without its name. Default: none.

    Example:
        >>> for_python(TypeError("'str' object is not callable"), "record.value().trim()")
        'value is an attribute: write it without ()'
    """
    if isinstance(error, TypeError) and message_of(error).endswith("object is not callable"):
        called = re.search(r"\.(key|value|timestamp|headers|topic|partition|offset|start|end)\(\)", line)
        return f"{called[1]} is an attribute: write it without ()" if called else None
    if isinstance(error, AttributeError):
        ours = isinstance(error.obj, tuple | Iterator) or type(error.obj).__module__.startswith("kstreamnb.")
        return from_java(error.name or "", dir(error.obj)) if ours else None
    name = (isinstance(error, NameError) and error.name) or ""
    return f"kstreamnb.{name} has it" if name in known else from_java(name, ()) if name[:1].isupper() else None


def message_of(error: BaseException | None) -> str:
    """Return the text of an error, also of one whose ``__str__`` raises.

    Example:
        >>> message_of(ValueError("too large"))
        'too large'
    """
    try:
        return str(error)
    except BaseException as failure:  # the class belongs to the user: it may raise anything
        return f"(its text is not available: __str__ raised {type(failure).__name__})"
