"""Answers queries of an application's stores as JSON: an ASGI application without a framework.

Mount it in a service behind its sign-in, or let `kstreamnb.tools.store_server.serve` run it on this machine.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager, suppress
from http import HTTPStatus
from itertools import islice
from typing import Protocol, TypeAlias, cast
from urllib.parse import parse_qs, unquote
from uuid import UUID

from kstreamnb.core.record import AggregationWithHeaders, ValueAndTimestamp, ValueTimestampHeaders, Windowed
from kstreamnb.core.serde import Serde
from kstreamnb.core.stores import StoreSpec, VersionedRecord
from kstreamnb.core.time import MAX_TIME_MS, instant_ms
from kstreamnb.errors import ConfigError, EngineError, StateError, unknown
from kstreamnb.hints import detailed, message_of
from kstreamnb.state.query_views import KeyValueView, SessionView, VersionedView, View, WindowView
from kstreamnb.topology.topology import Topology

SAFE = {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store"}
HEADERS = {"Content-Type": "application/json; charset=utf-8", **SAFE}
_MOST_ROWS = 1_000
_WINDOWS = ("limit", "from", "to")
_OPTIONS: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "key_value": (("limit", "from", "to", "prefix"), ()),
    "window": (_WINDOWS, _WINDOWS),
    "session": (_WINDOWS, _WINDOWS),
    "versioned": ((), ("as_of",)),
}
"""By kind of store: the options of its rows, and those of one key."""
_PATIENCE_S = 5.0
Message: TypeAlias = MutableMapping[str, object]


class ServedApplication(Protocol):
    """An application with stores: a `TopologyTestDriver`, an application of a `ClusterDriver`, or a `Query`.

    Its stores are read by one thread at a time if it has a ``lock``, which it holds while its stores change.
    """

    topology: Topology

    def store(self, name: str, *, headers: bool) -> object:
        """Return a view of a store; with headers, rows are shown with their timestamps."""


class StoreApp:
    """Answers GET requests for the stores of an application; `serve` documents the paths.

    It is an ASGI application: mount it behind your own sign-in. It performs no authentication.

    Args:
        application: a `TopologyTestDriver`, an application of a `ClusterDriver`, or a `Query`.

    Example:
        >>> from kstreamnb import StreamsBuilder, TopologyTestDriver
        >>> builder = StreamsBuilder("shop")
        >>> prices = builder.table("prices", store="prices")
        >>> app = StoreApp(TopologyTestDriver(builder.build()))
        >>> status, body = app.answer("/stores", "")
        >>> status.value, body
        (200, b'{"prices": "timestamped_key_value"}')
    """

    def __init__(self, application: ServedApplication) -> None:
        if not hasattr(application, "topology") or not hasattr(application, "store"):
            kind = type(application).__name__
            raise ConfigError(f"expected a driver, an application of a cluster or a query, got {kind}")
        self._application = application

    def answer(self, path: str, query: str) -> tuple[HTTPStatus, bytes]:
        """Return the status and the JSON for a path and a query string, both as in the URL.

        Args:
            path: path of the URL, such as "/stores/counts".
            query: query string without "?", such as "key=shoe".
        """
        parts = [unquote(part) for part in path.strip("/").split("/")]
        try:
            return HTTPStatus.OK, encoded(_answer(self._application, parts, _options(query)))
        except _Refused as refusal:
            return refusal.status, encoded({"error": str(refusal)})
        except StateError as error:
            return HTTPStatus.BAD_REQUEST, encoded({"error": detailed(error)})
        except EngineError as error:  # such as a batch that is not committed yet
            return HTTPStatus.SERVICE_UNAVAILABLE, encoded({"error": detailed(error)})
        except BaseException as error:  # a user's store or serde may raise anything, and this thread has no caller
            text = f"{type(error).__name__}: {message_of(error)}"
            return HTTPStatus.INTERNAL_SERVER_ERROR, encoded({"error": text})

    async def __call__(
        self,
        scope: Mapping[str, object],
        receive: Callable[[], Awaitable[Message]],
        send: Callable[[Message], Awaitable[None]],
    ) -> None:
        """Answer one request of an ASGI server."""
        if scope["type"] != "http":
            raise NotImplementedError(f"only HTTP is answered, not {scope['type']}")
        if scope["method"] == "GET":
            raw = cast("bytes", scope.get("raw_path") or str(scope["path"]).encode())
            path = raw.decode("latin-1").partition("?")[0].removeprefix(str(scope.get("root_path", "")))
            query = cast("bytes", scope["query_string"]).decode("latin-1")
            status, body = await asyncio.to_thread(self.answer, path, query)
        else:
            status, body = HTTPStatus.METHOD_NOT_ALLOWED, b'{"error": "stores are read only: use GET"}'
        headers = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]
        await send({"type": "http.response.start", "status": status.value, "headers": headers})
        await send({"type": "http.response.body", "body": body})


class _Refused(Exception):
    """A question that has no answer: a status and the reason."""

    def __init__(self, text: str, status: HTTPStatus = HTTPStatus.BAD_REQUEST) -> None:
        super().__init__(text)
        self.status = status


def encoded(content: object) -> bytes:
    """Return an answer as JSON."""
    return json.dumps(content, default=_as_json, ensure_ascii=False).encode(errors="backslashreplace")


def _options(query: str) -> dict[str, str]:
    """Return the options of a query string; refuse one that is given twice."""
    given = parse_qs(query, keep_blank_values=True)
    if twice := next((name for name, values in given.items() if len(values) > 1), None):
        raise _Refused(f"option {twice} is given {len(given[twice])} times")
    return {name: values[0] for name, values in given.items()}


def _expect(options: Iterable[str], known: tuple[str, ...], path: str) -> None:
    """Refuse options that a path does not have."""
    for name in options:
        if name not in known:
            raise _Refused(f"unknown option {name}: {path} takes {', '.join(known) or 'no options'}")


def _answer(application: ServedApplication, path: list[str], options: Mapping[str, str]) -> object:
    specs = _specs(application)
    match path:
        case ["health"]:
            _expect(options, ("store", "key") if "store" in options else ("store",), "/health")
            return _health(application, specs, options)
        case ["" | "stores"]:
            _expect(options, (), "/stores")
            return {name: spec.kind for name, spec in specs.items()}
        case ["stores", name, *key] if len(key) < 2:
            with _reading(application):
                view, kind = _view(application, specs, name), _kind(specs[name])
                _expect(options, _OPTIONS[kind][len(key)], f"{'a key of ' if key else ''}a {kind} store")
                if key:
                    return _row(view, specs[name], _key(specs[name], key[0]), options)
                rows = _selected(view, specs[name], options)
                return [_shown(each, row) for each, row in islice(rows, _limit(options))]
    raise _Refused("the paths are /stores, /stores/NAME, /stores/NAME/KEY and /health", HTTPStatus.NOT_FOUND)


@contextmanager
def _reading(application: ServedApplication) -> Iterator[None]:
    """Read between two changes of an application: even reading changes a driver's store, because it sorts new keys."""
    lock = getattr(application, "lock", None)
    if lock is None:
        yield
    elif lock.acquire(timeout=_PATIENCE_S):
        try:
            yield
        finally:
            lock.release()
    else:
        text = f"the stores are changing: the application has processed records for {_PATIENCE_S:g} s; ask again"
        raise _Refused(text, HTTPStatus.SERVICE_UNAVAILABLE)


def _health(
    application: ServedApplication, specs: Mapping[str, StoreSpec], options: Mapping[str, str]
) -> Mapping[str, object]:
    """Return the state, and the row that was asked for; refuse if the application does not run."""
    state, slow, stuck = _state(application)
    if state != "running" or stuck:
        problem = f"the application is not running: {state}" if state != "running" else "the application is stuck"
        raise _Refused(problem if slow is None else f"{problem}; {slow}", HTTPStatus.SERVICE_UNAVAILABLE)
    name = options.get("store")
    if name is None:
        return {"state": state} if slow is None else {"state": state, "slow": slow}
    try:
        with _reading(application):
            view, key = _view(application, specs, name), _key(specs[name], options.get("key", ""))
            return {"state": state, "store": name, **_row(view, specs[name], key, {})}
    except _Refused as refusal:
        if refusal.status is HTTPStatus.NOT_FOUND and name in specs:  # the key is missing, the store answers
            return {"state": state, "store": name, "value": None}
        raise
    except Exception as error:  # the store's own reason, of whatever kind
        raise _Refused(f'store "{name}" cannot be read: {error}', HTTPStatus.SERVICE_UNAVAILABLE) from error


def _state(application: ServedApplication) -> tuple[str, str | None, bool]:
    """Return the state in a word, the slow batch if there is one, and whether it is stuck; a driver always runs."""
    status = getattr(application, "status", "running")
    if not callable(status):
        return str(status), None, False
    report = status(lag=False)
    return str(report.state), report.slow, report.stuck


def _specs(application: ServedApplication) -> dict[str, StoreSpec]:
    topology = application.topology
    return dict(sorted({**topology.stores, **topology.global_stores}.items()))


def _view(application: ServedApplication, specs: Mapping[str, StoreSpec], name: str) -> View:
    if name not in specs:
        error = unknown("store", name, specs, error=StateError)
        raise _Refused("; ".join(filter(None, (error.message, error.detail, error.hint))), HTTPStatus.NOT_FOUND)
    if _kind(specs[name]) not in _OPTIONS:
        raise _Refused(f'store "{name}" serves an operator and has no rows for readers')
    return cast("View", application.store(name, headers=True))


def _kind(spec: StoreSpec) -> str:
    return spec.kind.removeprefix("timestamped_").replace("lru", "key_value")


def _key(spec: StoreSpec, text: str) -> object:
    """Parse a key of an address: the first interpretation that the serde can write."""
    serde = cast("Serde | None", spec.key_serde)  # a name is resolved when the spec is made
    readings: list[Callable[[str], object]] = [json.loads, UUID, str]
    for read in [str] if serde is None or serde.name == "string" else readings:
        with suppress(ValueError):  # SerdeError is one
            key = read(text)
            if serde is not None:
                serde.serialize(key)
            return key
    name = serde.name if serde else "unknown"
    raise _Refused(f'"{text}" is not a key of store "{spec.name}", whose serde is {name}')


def _times(options: Mapping[str, str]) -> tuple[int, int]:
    return _time(options, "from", 0), _time(options, "to", MAX_TIME_MS)


def _time(options: Mapping[str, str], name: str, default: int) -> int:
    """Return an instant, given as milliseconds or ISO text."""
    if (text := options.get(name)) is None:
        return default
    # A "+" that was not escaped is a space; a time has no space after date, separator and hour.
    text = re.sub(r"(?<=.{11}) (?=[\d:]+$)", "+", text)
    try:
        is_number = text.isascii() and text.removeprefix("-").isdigit() and len(text) <= len(str(-MAX_TIME_MS))
        return instant_ms(int(text) if is_number else text, name)
    except ConfigError as error:
        raise _Refused(detailed(error)) from error


def _limit(options: Mapping[str, str]) -> int:
    text = options.get("limit", str(_MOST_ROWS))
    if text.isascii() and text.isdigit() and len(text) < 9 and 1 <= int(text) <= _MOST_ROWS:
        return int(text)
    raise _Refused(f'limit must be an integer from 1 to {_MOST_ROWS:,}, got "{text}"')


def _selected(view: View, spec: StoreSpec, options: Mapping[str, str]) -> Iterator[tuple[object, object]]:
    """Return the rows of a store, or those between two keys or times."""
    if spec.kind == "versioned":
        raise _Refused(f"name a key of a versioned store: /stores/{spec.name}/KEY")
    if _kind(spec) == "window":
        return cast("WindowView", view).fetch_all(*_times(options))
    if spec.kind == "session":
        return cast("SessionView", view).find_sessions_between(None, None, *_times(options))
    ends = [_key(spec, options[end]) if end in options else None for end in ("from", "to")]
    if "prefix" in options and ends != [None, None]:
        raise _Refused("prefix cannot be combined with from and to")
    rows = cast("KeyValueView", view)
    return rows.prefix_scan(_key(spec, options["prefix"])) if "prefix" in options else rows.range(*ends)


def _row(view: View, spec: StoreSpec, key: object, options: Mapping[str, str]) -> dict[str, object]:
    """Return the row of a key, or its windows or sessions."""
    if _kind(spec) == "window":
        size = spec.window_size_ms or 0
        starts = cast("Iterator[tuple[int, object]]", cast("WindowView", view).fetch(key, *_times(options)))
        rows: list[tuple[object, object]] = [(Windowed(key, start, start + size), row) for start, row in starts]
    elif spec.kind == "session":
        rows = list(cast("SessionView", view).find_sessions(key, *_times(options)))
    else:
        row = cast("VersionedView", view).get(key, *([_time(options, "as_of", 0)] if "as_of" in options else []))
        if row is not None:
            return _shown(key, row)
        rows = []
    if not rows:
        shown = json.dumps(key, default=_as_json)
        raise _Refused(f'store "{spec.name}" has nothing for key {shown}', HTTPStatus.NOT_FOUND)
    return {"key": key, "rows": [_shown(windowed, row) for windowed, row in islice(rows, _limit(options))]}


def _shown(key: object, row: object) -> dict[str, object]:
    """Return a row with its key as an object of JSON."""
    position: dict[str, object] = {"key": key}
    if isinstance(key, Windowed):
        position = {"key": key.key, "start": key.start, "end": key.end}
    if isinstance(row, AggregationWithHeaders):
        return {**position, "value": row.aggregation, "headers": row.headers}
    if isinstance(row, ValueTimestampHeaders):
        return {**position, "value": row.value, "timestamp": row.timestamp, "headers": row.headers}
    if isinstance(row, ValueAndTimestamp | VersionedRecord):
        return {**position, "value": row.value, "timestamp": row.timestamp}
    return {**position, "value": row}


def _as_json(value: object) -> object:
    """Convert what JSON lacks: objects to their fields, bytes to hexadecimal digits, others to text."""
    if isinstance(value, bytes | bytearray):
        return value.hex()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    return str(value)
