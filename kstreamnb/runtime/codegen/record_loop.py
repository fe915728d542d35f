"""The loop over records of a source, as the beginning of a generated function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn, TypeAlias

from kstreamnb.core.codec import indexed_type
from kstreamnb.core.serde import Serde
from kstreamnb.errors import EngineError
from kstreamnb.runtime.codegen.function_builder import OWN_NAMES, FunctionBuilder
from kstreamnb.runtime.codegen.serde_lines import add_reading

EndLines: TypeAlias = Callable[[FunctionBuilder], list[str]]
"""Writes the lines that record what happened at the end of a record."""

Loop: TypeAlias = Callable[..., Any]
"""``loop(records)``: processes records; shared ones get more."""

WIRE_RECORDS = "offset, timestamp, key, value, headers"
TOPIC_RECORDS = "_, partition, _, timestamp, key, value, headers"
ROWS = "_, _, timestamp, key, value, headers"
PUNCTUATE = "if now >= due[0]: punctuate(now)"


class NegativeTimestamp(Exception):
    """The current record has a negative timestamp."""


def record_loop(
    source: str,
    shape: str,
    serdes: tuple[Serde, Serde],
    stream_time: list[int],
    due: list[int] | None,
    punctuate: Callable[[int], object],
    end_lines: EndLines | None,
    first: list[int] | None,
    partition: int | None,
) -> FunctionBuilder:
    """Begin a loop over records; the caller appends the processing of each.

    Args:
        source: the source node.
        shape: the names to which a record is unpacked: one of the constants of this module.
        serdes: key and value serde of the source.
        stream_time: holds the stream time of the task.
        due: holds the time of the next punctuator; None if no node of the task can have one.
        punctuate: runs the punctuators that are due.
        end_lines: writes the lines for the end of each record.
        first: holds the offset of the record before, if offsets are counted.
        partition: the partition; None for a loop that all partitions share. It also gets the numbers of partitions by
            key, the function that finds others, and for each its next offset and the list that gets the times of its
            records:
            the caller advances the stream times, which only users' processors read. The local name ``is_new`` is true
            if the numbers did not have the key; otherwise the local name ``partition`` is the one that it determines.
    """
    shared, given = partition is None, shape == TOPIC_RECORDS
    head = [f"def loop(records{', now, numbers, find, offsets, times' * shared}):"]
    head += [] if shared else [" now = stream_time[0]"]  # other loops may have advanced it
    head += [] if end_lines is None else [" begun = False"]
    head.append(f" for {'record' if given else shape} in records:")
    builder = FunctionBuilder(source, "\n".join(head), skip="continue", indent=2)
    builder.names.update(
        stream_time=stream_time, due=due, punctuate=punctuate, first=first, negative=_negative, misplaced=_misplaced
    )
    # Due punctuators run at the head of the loop, for the record before: `continue` may skip the end of the body.
    lines = [] if due is None else [PUNCTUATE]
    if end_lines is not None:
        lines += ["if begun:", *(" " + line for line in end_lines(builder)), "begun = True"]
    if given:  # an exact tuple is unpacked faster than a named one
        lines.append(f"{shape} = () + record")
    if first is not None:
        lines.append("offset = first[0] = first[0] + 1")
    if given and not shared:
        lines.append(f"if partition > {partition}: misplaced(partition)")
    if shared:
        lines.append(f"if partition < 0 and type(key) is {indexed_type(serdes[0]).__name__}:")
        lines += [" try: number = partition = numbers[key]", " except KeyError: number = None", "else: number = None"]
        lines += ["if is_new := number is None: number = find(partition, key)"]
        lines += ["times[number].append(timestamp)", OWN_NAMES, "if timestamp < 0: negative()"]
    else:  # one comparison for both: a timestamp below the stream time is rare, a negative one rarer
        lines += ["if timestamp > now: now = stream_time[0] = timestamp", "elif timestamp < 0: negative()"]
    for line in lines:
        builder.add(source, line)
    add_reading(builder, source, serdes, given=given, indexed=shared)
    return builder


def _negative() -> NoReturn:
    raise NegativeTimestamp


def _misplaced(partition: int) -> NoReturn:
    hint = f"pass partitions={partition + 1}, or as many as the topic has"
    raise EngineError(f"the topic has no partition {partition}", detail="it has 1", hint=hint)
