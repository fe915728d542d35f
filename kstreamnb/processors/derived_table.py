"""What tables made of another table's rows have in common: new values from new ones, old values from old ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kstreamnb.core.operator import BindContext, Forward, Process
from kstreamnb.core.record import Change, Headers
from kstreamnb.processors.rows import bind_get, bind_update


def bind_derived(
    context: BindContext,
    forward: Forward,
    compute: Callable[[Any, Any], Any],
    *,
    store: str | None,
    send_old: bool,
    skips: bool = False,
) -> Process:
    """Forward changes with ``compute(key, value)`` in place of the values.

    The old value comes from the table's own store, if it has one, else it is computed as well. With ``skips`` a change
    from nothing to nothing ends here.
    """
    if store is None:

        def derive(key: Any, change: Change, timestamp: int, headers: Headers) -> None:
            new = compute(key, change[0])
            old = compute(key, change[1]) if send_old else None
            if not skips or new is not None or old is not None:
                forward(key, Change(new, old, change[2]), timestamp, headers)

        return derive

    get = bind_get(context.store(store))
    update = bind_update(context, store, forward, send_old=send_old)

    def derive_row(key: Any, change: Change, timestamp: int, headers: Headers) -> None:
        new, row = compute(key, change[0]), get(key) if send_old else None
        old = None if row is None else row[0]
        if not skips or new is not None or old is not None:
            update(key, new, old, timestamp, headers)

    return derive_row
