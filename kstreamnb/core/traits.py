"""The traits of operators: the properties by which the rest of the package recognizes them, and users' functions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

from kstreamnb.core.windows import SessionWindows, SlidingWindows, TimeWindows, UnlimitedWindows

RowUse: TypeAlias = Literal["none", "replace", "fold", "fold by time", "match", "any"]
"""How an operator's results follow from rows of stores.

"replace": the row is the last value; "fold": the row is made of the row before and the record; "fold by time": of all
records in the row's time span; "match": a result is made of the record and the rows just looked up; "any": of any rows
looked up; "none": it uses no rows.
"""

AggregationWindows: TypeAlias = TimeWindows | SlidingWindows | SessionWindows | UnlimitedWindows
"""Windows in which a grouped stream is aggregated."""

KeyValueMapper: TypeAlias = Callable[[Any, Any], Any]
"""``mapper(key, value)``: a user's function of a record."""

ValueMapper: TypeAlias = Callable[..., Any]
"""``mapper(value)``, or ``mapper(key, value)`` for an operator ``with_key``."""

ValueJoiner: TypeAlias = Callable[..., Any]
"""``joiner(left, right)``, or ``joiner(key, left, right)`` for an operator ``with_key``."""


class Condition(NamedTuple):
    """A predicate that decides whether a record is forwarded; ``child`` is its branch, None for all children."""

    predicate: KeyValueMapper
    negate: bool = False
    child: str | None = None


class JoinTraits(NamedTuple):
    """How an operator finds the partner of a record.

    Attributes:
        kind: "streams" (a window of the other stream), "lookup" (a stream's record, a table's row), "tables" (rows of
            the same key), "answer" (a subscription, the row of its foreign key) or "notify" (a row, the
            subscriptions to its key).
        store: the store that holds the partners.
        before_ms: how far before its own time a record looks for partners, in ms of stream time.
        after_ms: how far after its own time.
        keeps_unmatched: whether a record without a partner has a result.
        key_selector: ``(key, value)`` to the key of the row; None for the record's own key.
    """

    kind: Literal["streams", "lookup", "tables", "answer", "notify"]
    store: str
    before_ms: int = 0
    after_ms: int = 0
    keeps_unmatched: bool = False
    key_selector: KeyValueMapper | None = None


class BufferTraits(NamedTuple):
    """Where an operator holds records back, and until which stream time.

    Attributes:
        kind: "change" (a suppression), "partner" (an outer join of streams) or "row" (a record waits for its table).
        store: the store that holds them.
        wait_ms: a record leaves once stream time is its own time + ``wait_ms`` + ``grace_ms``; for a "partner" 1 ms
            later.
        window_end: whether the time of a change is the end of its window.
        is_left: the side whose records wait here; None if the operator has one side.
        clock: name of the stream time that both sides of a join share.
        bounded: whether the number or size of the records is limited.
    """

    kind: Literal["change", "partner", "row"]
    store: str
    wait_ms: int = 0
    grace_ms: int = 0
    window_end: bool = False
    is_left: bool | None = None
    clock: str = ""
    bounded: bool = False


@dataclass(frozen=True)
class OperatorTraits:
    """The properties of an operator that the rest of the package asks for, instead of its type or fields.

    Attributes:
        row_use: how results follow from rows.
        store: the store whose rows the operator writes.
        join: how it finds partners, if it joins.
        buffer: where it holds records back, if it does.
        windows: the windows in which it aggregates.
        emit_on_close: whether it forwards only final results of windows.
        condition: the predicate that decides about every record.
        branches: the predicates that decide to which child a record goes, first match first.
        effect: whether it calls a function for its side effects, not for a result.
        user_code: whether it runs a user's processor, which may punctuate, keep state and read every global store.
        reads_global: whether it may look up rows of a global store, to which no node is connected.
        sends_old: whether it has a field ``send_old``: it can forward old values.
        changes_key: whether a record may be in the wrong partition afterwards.
        changes_value: whether a value has another serde afterwards.
    """

    row_use: RowUse
    store: str | None = None
    join: JoinTraits | None = None
    buffer: BufferTraits | None = None
    windows: AggregationWindows | None = None
    emit_on_close: bool = False
    condition: Condition | None = None
    branches: tuple[Condition, ...] = ()
    effect: bool = False
    user_code: bool = False
    reads_global: bool = False
    sends_old: bool = False
    changes_key: bool = False
    changes_value: bool = False


NO_TRAITS = OperatorTraits("none")
"""The default traits: of an operator that declares none, and of a node without an operator."""
