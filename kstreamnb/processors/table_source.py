"""A topic read as a table, global or not, or a stream turned into one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kstreamnb.core.operator import BindContext, Forward, Process
from kstreamnb.core.record import Change, Headers
from kstreamnb.processors.rows import bind_get, bind_update


@dataclass(frozen=True)
class TableSource:
    """Takes each record as the new value of its key's row; a null value deletes the row.

    Without a store the old value is not known and never forwarded. A record older than its row still replaces
    it; a versioned store puts it into the row's history instead and may refuse it.

    Shape: stream[K, V] -> table[K, V]; 1 -> 0..1; key, time and headers kept; store: key-value, or none.
    Late: only a versioned store refuses, by its history retention. A null key is dropped: "null key".
    Source: Kafka Streams `StreamsBuilder#table`, `StreamsBuilder#globalTable`, `KStream#toTable`.
    """

    store: str | None = None
    send_old: bool = False

    def bind(self, context: BindContext, forward: Forward) -> Process:
        """Build the closure of one task."""
        drop, put = context.drop, _forward_new(forward)
        if self.store is not None:
            put = self._bind_put(context, forward, self.store)

        def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            if key is None:
                drop("null key", key, value, timestamp)
            else:
                put(key, value, timestamp, headers)

        return process

    def _bind_put(self, context: BindContext, forward: Forward, store: str) -> Process:
        """How to put a row; the old one is looked up only when someone wants it."""
        update = bind_update(context, store, forward, send_old=self.send_old)
        if self.send_old:
            get = bind_get(context.store(store))

            def put(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
                row = get(key)
                update(key, value, None if row is None else row[0], timestamp, headers)

        else:

            def put(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
                update(key, value, None, timestamp, headers)

        return put


def _forward_new(forward: Forward) -> Process:
    """Without a store a record is a change whose old value nobody knows."""

    def put(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        forward(key, Change(value), timestamp, headers)

    return put
