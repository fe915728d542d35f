"""Contents of stores, and answers to store queries, in the golden format."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from kstreamnb.core.record import AggregationWithHeaders, ValueAndTimestamp, ValueTimestampHeaders, Windowed
from kstreamnb.core.stores import VersionedRecord
from kstreamnb.state.query_views import KeyValueView, SessionView, VersionedView, View, WindowView
from kstreamnb.testdriver.topology_test_driver import TopologyTestDriver

__all__ = ["dump_changelogs", "dump_queries", "dump_stores"]

_INTERNAL = re.compile(
    r"SUBSCRIPTION-STATE-STORE-[0-9]+$|-subscription-store$|^KSTREAM-OUTERSHARED-|-(left|outer)-shared-join-store$"
)

_JOIN_WINDOW = re.compile(r"^KSTREAM-(JOIN|OUTER)(THIS|OTHER)-[0-9]+-store$|-join-store$")


def dump_stores(driver: TopologyTestDriver, keys: list[str], *, cached: bool) -> dict[str, Any]:
    """All stores by name; versioned ones can be asked only by key, so those of ``keys`` are shown."""
    return {name: _dump(driver, name, keys, cached=cached) for name in sorted(driver.get_all_state_stores())}


def _dump(driver: TopologyTestDriver, name: str, keys: list[str], *, cached: bool) -> dict[str, Any]:
    store = driver.get_state_store(name)
    if isinstance(store, VersionedView):
        return {"kind": "versioned", "rows": [[key, *_cells(row)] for key in keys for row in store.history(key)]}
    if _INTERNAL.search(name) or not isinstance(store, View):
        return {"kind": "other", "size": _size(driver, name)}
    if isinstance(store, KeyValueView):
        return {"kind": "kv", "rows": _rows(store.all())}
    if isinstance(store, WindowView):
        if cached:
            return {"kind": "window"}
        rows = [_with_time(row, name, driver) for row in _rows(store.all())]
        return {"kind": "window", "rows": sorted(rows, key=lambda row: (row[0], row[1]))}
    return {"kind": "session", "rows": sorted(_rows(store.all(), session=True), key=lambda row: tuple(row[:3]))}


def _with_time(row: list[Any], name: str, driver: TopologyTestDriver) -> list[Any]:
    """Java has stream joins in stores with headers: persistent ones forget the time in the default format, others show
    the start.
    """
    spec = driver.topology.stores.get(name)  # None: a global table's
    if spec is None or not spec.retain_duplicates or not _JOIN_WINDOW.search(name):
        return row
    return [*row, -1 if spec.persistent and driver.config.dsl_store_format == "default" else row[-2]]


def _size(driver: TopologyTestDriver, name: str) -> int:
    store = driver.get_state_store(name)
    inner = store.stores[0] if hasattr(store, "stores") else store
    if hasattr(inner, "count"):
        return int(inner.count())
    if hasattr(inner, "approximate_num_entries"):
        return int(inner.approximate_num_entries())
    return len([key for key in inner.raw if key is not None])


def _rows(rows: Iterable[tuple[Any, Any]], *, session: bool = False) -> list[list[Any]]:
    found = []
    for key, row in rows:
        if isinstance(key, Windowed):
            cells = [_text(key.key), key.start, *([key.end] if session else [])]
        else:
            cells = [_text(key)]
        found.append([*cells, *_cells(row)])
    return found


def _text(key: Any) -> Any:
    return str(key) if isinstance(key, Windowed) else key


def _cells(row: Any) -> list[Any]:
    if isinstance(row, ValueTimestampHeaders | AggregationWithHeaders):
        *cells, headers = row
        return [*cells, [[name, None if data is None else data.decode()] for name, data in headers]]
    if isinstance(row, ValueAndTimestamp):
        return [row.value, row.timestamp]
    if isinstance(row, VersionedRecord):
        return [row.value, row.timestamp, row.valid_to]
    return [row]


def dump_changelogs(driver: TopologyTestDriver) -> dict[str, list[Any]]:
    """Changelogs by topic: key, value, timestamp and headers, bytes in hexadecimal digits."""
    found = {}
    for topic in sorted(topic for topic in driver.produced_topic_names() if topic.endswith("-changelog")):
        records = driver.create_output_topic(topic, "bytes", "bytes").read_records()
        found[topic] = [
            [_hex(each.key), _hex(each.value), each.timestamp, [[name, _hex(data)] for name, data in each.headers]]
            for each in records
        ]
    return found


def _hex(data: bytes | None) -> str | None:
    return None if data is None else data.hex()


def dump_queries(driver: TopologyTestDriver, queries: list[list[Any]]) -> list[list[Any]]:
    """Answers to queries (golden README, section 6)."""
    return [_answer(driver, name, method, args) for name, method, *args in queries]


def _answer(driver: TopologyTestDriver, name: str, method: str, args: list[Any]) -> list[Any]:
    """The rows of a query; "plain." and "timed." before the method ask for less than the store keeps."""
    word, _, method = method.rpartition(".")
    store = driver.store(name, timestamps=word == "timed") if word else driver.get_state_store(name)
    return [_with_time(row, name, driver) for row in _query(store, method, args)]


def _query(store: Any, method: str, args: list[Any]) -> list[Any]:
    is_window = isinstance(store, WindowView)
    if isinstance(store, VersionedView) and method.startswith("history"):
        key, from_, to = (*args, None, None)[:3]
        return [_cells(row) for row in store.history(key, from_, to, ascending=method == "history")]
    if method in ("get", "get_as_of", "fetch_session") or (method == "fetch" and is_window and len(args) == 2):
        found = getattr(store, "get" if method == "get_as_of" else method)(*args)
        return [] if found is None else [_cells(found)]
    if is_window and method in ("fetch", "backward_fetch"):
        return [[start, *_cells(row)] for start, row in getattr(store, method)(*args)]
    name = {"find": "find_sessions", "find_keys": "find_sessions_between", "count": "approximate_num_entries"}
    return _rows(getattr(store, name.get(method, method))(*args), session=isinstance(store, SessionView))
