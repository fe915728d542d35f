"""Keep or refuse rows of a table by a predicate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kstreamnb.core.operator import BindContext
from kstreamnb.processors.derived_table import Compute, DerivedTable


@dataclass(frozen=True)
class TableFilter(DerivedTable):
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

    @property
    def skips(self) -> bool:
        """Whether downstream has nothing to delete where neither value is kept."""
        return self.send_old and not self.versioned

    def computing(self, context: BindContext) -> Compute:
        """The value when its row stays; no value is not asked about."""
        predicate, negate = self.predicate, self.negate

        def keep(key: Any, value: Any) -> Any:
            return None if value is None or bool(predicate(key, value)) == negate else value

        return keep
