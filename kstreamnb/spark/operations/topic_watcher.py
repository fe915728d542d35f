"""Topic watcher: ends a query whose topics were deleted, or replaced by others of the same name.

A reader that waits for records does not notice that a topic was deleted, and offsets alone cannot distinguish a topic
from a newer one that has grown past them. So the watcher looks for the topics every second, and compares their ids when
one is there again, and every half minute: Kafka's Python client keeps some memory of each id that it asks for.
It also notices that no broker answers, which the query itself reports only when its patience ends.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from kstreamnb.errors import DataLossError, EngineError, TopicDeletedError
from kstreamnb.kafka.output_batch import NO_MARKERS
from kstreamnb.spark.operations.application_topics import marker_topic

if TYPE_CHECKING:  # the watcher is a companion of the query
    from kstreamnb.kafka.admin import Admin
    from kstreamnb.spark.query.query import Query

_EVERY_S = 1.0
_IDS_EVERY_S = 30.0
PATIENCE_S = 5.0  # how long a look waits for a broker
_LOOKS = 3  # in a row without a topic: a broker that has just come back may not know it yet
_GONE = "it was deleted, or this user lost access to it"
_WAY_OUT = "reset the application, or deploy it with fail_on_loss=False to read what comes after its position"


class TopicWatcher:
    """Ends a query whose topics were deleted or replaced.

    ``ids`` are the known ids of input topics, None if they may be replaced; the first look adds the others. The topics
    in ``written`` may be replaced.
    """

    def __init__(self, query: Query, admin: Admin, ids: Mapping[str, str] | None, written: Iterable[str]) -> None:
        self._query, self._admin, self._written = query, admin, tuple(written)
        self._ids = None if ids is None else dict(ids)
        self._markers = marker_topic(query.control.action.sink)
        self._missed: dict[str, int] = {}
        self._away: type = type(None)  # kind of the last look's error
        self._compared_s = self._answered_s = 0.0

    def __call__(self, lasts: Callable[[], bool]) -> None:
        """Watch until the query ends or is started again."""
        pause = threading.Event()
        self._missed.clear()
        self._query.book.away, self._compared_s, self._away = None, -_IDS_EVERY_S, type(None)
        self._answered_s = time.monotonic()
        while not pause.wait(_EVERY_S) and lasts() and self._query.is_active():
            try:
                error = self._look()
            except EngineError as away:  # the query itself waits for the broker
                self._note(away)
                continue
            self._note(None)
            if error is not None:
                self._query.control.end_with(error)
                return

    def _note(self, error: EngineError | None) -> None:
        """Log that the broker cannot be reached, again for another kind of reason, and that it is back.

        A broker that restarts with other passwords refuses connections first, and then the client.
        """
        log, book, now_s = self._query.control.action.log, self._query.book, time.monotonic()
        before, self._away = self._away, type(error)
        book.away = None if error is None else error.detail or error.message
        if error is not None and before is not self._away:
            log.warn("broker cannot be reached", error=error.message, reason=error.detail)
        elif before is not self._away:
            log.note("broker is back", away_s=round(now_s - self._answered_s))
        self._answered_s = now_s if error is None else self._answered_s

    def _look(self) -> EngineError | None:
        application = self._query.deployment.application
        watched = dict.fromkeys((*application.inputs, *self._written, *([self._markers] if self._markers else [])))
        existing = self._admin.existing(watched)
        is_back = bool(self._missed.keys() & existing)
        self._missed = {topic: self._missed.get(topic, 0) + 1 for topic in watched if topic not in existing}
        missing = [topic for topic, looks in self._missed.items() if looks >= _LOOKS]
        if missing and missing[0] == self._markers:
            return _markers_missing(missing[0], application.id)
        if missing:
            return _missing(missing[0], application.id, read=missing[0] in application.inputs)
        if self._ids is None or (not is_back and time.monotonic() - self._compared_s < _IDS_EVERY_S):
            return None
        now = self._admin.identities(application.inputs)
        self._compared_s = time.monotonic()
        error = _replaced(self._ids, now, application.id)
        self._ids.update(now)
        return error


def refuse_replaced_topics(before: Mapping[str, str], now: Mapping[str, str], application: str) -> None:
    """Refuse topics that were replaced since a checkpoint noted their ids.

    Raises:
        DataLossError: a topic of the same name has another id.

    Example:
        >>> try:
        ...     refuse_replaced_topics({"orders": "a"}, {"orders": "b"}, "shop")
        ... except DataLossError as error:
        ...     print(error)
        input topic "orders" of "shop" was deleted and created again
    """
    if error := _replaced(before, now, application):
        error.add_note("Hint: a local_broker() without data= begins empty: give it a folder, or use a new checkpoint")
        raise error


def _replaced(before: Mapping[str, str], now: Mapping[str, str], application: str) -> DataLossError | None:
    for topic in sorted(now):
        if before.get(topic, now[topic]) != now[topic]:
            fact = f'input topic "{topic}" of "{application}" was deleted and created again'
            detail = "its offsets start again at 0, so the query's position no longer applies"
            return DataLossError(fact, detail=detail, hint=_WAY_OUT)
    return None


def _missing(topic: str, application: str, *, read: bool) -> TopicDeletedError:
    fact = f'{"input" if read else "output"} topic "{topic}" of "{application}" no longer exists'
    hint = f"create it again; then {_WAY_OUT}" if read else "deploy the application again, which creates it"
    return TopicDeletedError(fact, detail=_GONE, hint=hint)


def _markers_missing(topic: str, application: str) -> DataLossError:
    fact = f'topic "{topic}" of "{application}" no longer exists'
    hint = f"if it was deleted, {NO_MARKERS}; otherwise grant this user DESCRIBE on it, and start the query again"
    return DataLossError(fact, detail=f"{_GONE}; it records which batches are in Kafka", hint=hint)
