"""Keep or refuse rows of a table by a predicate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kstreamnb.core.operator import BindContext, Forward, Process
from kstreamnb.processors.derived_table import bind_derived


def keeping(predicate: Callable[[Any, Any], Any], *, negate: bool) -> Callable[[Any, Any], Any]:
    """``keep(key, value)`` gives the value when its row stays, else None; no value is not asked about."""
    if negate:

        def keep(key: Any, value: Any) -> Any:
            return None if value is None or predicate(key, value) else value

    else:

        def keep(key: Any, value: Any) -> Any:
            return value if value is not None and predicate(key, value) else None

    return keep


@dataclass(frozen=True)
class TableFilter:
    """Forwards changes with the values for which ``predicate(key, value)`` does not hold taken away.

    A row that is no longer kept is deleted downstream. With ``send_old`` nothing is forwarded when neither the
    old nor the new value is kept; without it every miss is a tombstone, even of a key that was never seen. So it is
    with a ``versioned`` parent, where an old value need not be what downstream has.

    Shape: table[K, V] -> table[K, V]; 1 -> 0..1; key, time and headers kept; store: key-value, or none.
    Source: Kafka Streams `KTable#filter`, `KTable#filterNot`.
    """

    predicate: Callable[[Any, Any], Any]
    negate: bool = False
    store: str | None = None
    send_old: bool = False
    versioned: bool = False

    def bind(self, context: BindContext, forward: Forward) -> Process:
        """Build the closure of one task."""
        keep, skips = keeping(self.predicate, negate=self.negate), self.send_old and not self.versioned
        return bind_derived(context, forward, keep, store=self.store, send_old=self.send_old, skips=skips)
