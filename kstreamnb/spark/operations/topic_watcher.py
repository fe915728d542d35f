"""Whether the topics of a running query are still there, and still the same ones.

A reader that waits for records hears nothing of a topic that is deleted, and offsets alone do not tell a topic from
another one that was created anew under its name and has grown past them. So ids are asked for now and then.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from kstreamnb.errors import DataLossError, EngineError, TopicDeletedError

if TYPE_CHECKING:  # a lookout is a query's companion
    from kstreamnb.kafka.admin import Admin
    from kstreamnb.spark.query.query import Query

__all__ = ["TopicWatcher", "refuse_other_topics"]

_EVERY_S = 1.0
_LOOKS = 3  # in a row without a topic: a broker that has just come back may not know it yet
_WAY_OUT = "reset the application, or deploy it with fail_on_loss=False to read what comes behind its position"


class TopicWatcher:
    """Ends a query whose topics are gone, or were created anew.

    ``ids`` are those of input topics as far as they are known; of others the first look takes note. With
    ``fail_on_loss`` an input that was created anew ends the query; a topic of ``written`` may be another one.
    """

    def __init__(
        self, query: Query, admin: Admin, ids: Mapping[str, str], written: Iterable[str], *, fail_on_loss: bool
    ) -> None:
        self._query, self._admin, self._ids = query, admin, dict(ids)
        self._written, self._fail_on_loss = tuple(written), fail_on_loss
        self._missed: dict[str, int] = {}

    def __call__(self, lasts: Callable[[], bool]) -> None:
        """Look after one start, as long as it lasts."""
        pause = threading.Event()
        self._missed.clear()
        while not pause.wait(_EVERY_S) and lasts() and self._query.is_active():
            try:
                error = self._look()
            except EngineError:
                continue  # a broker that is away tells nothing; the query itself is patient for so long
            if error is not None:
                self._query.fail(error)
                return

    def _look(self) -> EngineError | None:
        application = self._query.deployment.application
        inputs = application.inputs
        there = self._admin.identities({*inputs, *self._written})
        self._missed = {
            topic: self._missed.get(topic, 0) + 1 for topic in (*inputs, *self._written) if topic not in there
        }
        missing = [topic for topic, looks in self._missed.items() if looks >= _LOOKS]
        if missing:
            return _missing(missing[0], application.id, read=missing[0] in inputs)
        now = {topic: there[topic] for topic in inputs if topic in there}
        error = _another(self._ids, now, application.id) if self._fail_on_loss else None
        self._ids.update(now)
        return error


def refuse_other_topics(before: Mapping[str, str], now: Mapping[str, str], application: str) -> None:
    """Refuse to go on over a topic that was created anew since a checkpoint took note of its id.

    Example:
        >>> try:
        ...     refuse_other_topics({"orders": "a"}, {"orders": "b"}, "shop")
        ... except DataLossError as error:
        ...     print(error)
        input topic "orders" of "shop" was deleted and created anew
    """
    error = _another(before, now, application)
    if error is not None:
        raise error


def _another(before: Mapping[str, str], now: Mapping[str, str], application: str) -> DataLossError | None:
    for topic in sorted(now):
        if before.get(topic, now[topic]) != now[topic]:
            return DataLossError(
                f'input topic "{topic}" of "{application}" was deleted and created anew',
                detail="its offsets begin again at 0: the query's position says nothing of what is in it now",
                hint=_WAY_OUT,
            )
    return None


def _missing(topic: str, application: str, *, read: bool) -> TopicDeletedError:
    return TopicDeletedError(
        f'{"input" if read else "output"} topic "{topic}" of "{application}" is gone',
        detail="it was deleted, or this user may not see it any more",
        hint=f"create it anew; then {_WAY_OUT}" if read else "deploy the application again: that creates it",
    )
