"""Answers queries of an application's stores as JSON: an ASGI application without a framework.

Mount it in a service behind its sign-in, or let `kstreamnb.tools.store_server.serve` run it on this machine.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import threading
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, MutableMapping
from contextlib import nullcontext, suppress
from http import HTTPStatus
from itertools import islice
from typing import Protocol, TypeAlias, cast
from urllib.parse import parse_qs, unquote
from uuid import UUID

from kstreamnb.core.record import AggregationWithHeaders, ValueAndTimestamp, ValueTimestampHeaders, Windowed
from kstreamnb.core.serde import Serde
from kstreamnb.core.stores import StoreSpec, VersionedRecord
from kstreamnb.errors import ConfigError, StateError, unknown
from kstreamnb.hints import message_of
from kstreamnb.topology.topology import Topology

SAFE = {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store"}
HEADERS = {"Content-Type": "application/json; charset=utf-8", **SAFE}
_MOST_ROWS = 1_000
_FOREVER = (1 << 63) - 1
_OPTIONS = {"limit", "from", "to", "prefix", "store", "key", "as_of"}
Message: TypeAlias = MutableMapping[str, object]
StoreRows: TypeAlias = Iterable[tuple[object, object]]


class ServedApplication(Protocol):
    """An application with stores: a `TopologyTestDriver`, an application of a `ClusterDriver`, or a `Query`."""

    topology: Topology

    def store(self, name: str, *, headers: bool) -> object:
        """Return a view of a store; with headers, rows are shown with their timestamps."""


class _ReadableStore(Protocol):
    """The reading methods of a store; each kind of store has some of them."""

    def get(self, key: object, as_of: int = ...) -> object: ...
    def all(self) -> StoreRows: ...
    def range(self, from_: object, to: object) -> StoreRows: ...
    def prefix_scan(self, prefix: object) -> StoreRows: ...
    def fetch(self, key: object, *times: int) -> StoreRows: ...
    def fetch_all(self, from_: int, to: int) -> StoreRows: ...
    def find_sessions_between(self, key: None, to_key: None, from_: int, to: int) -> StoreRows: ...


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
        self._application, self._reading = application, threading.Lock()

    def answer(self, path: str, query: str) -> tuple[HTTPStatus, bytes]:
        """Return the status and the JSON for a path and a query string, both as in the URL.

        Args:
            path: path of the URL, such as "/stores/counts".
            query: query string without "?", such as "key=shoe".
        """
        parts = [unquote(part) for part in path.strip("/").split("/")]
        try:
            options = {name: values[-1] for name, values in parse_qs(query, keep_blank_values=True).items()}
            if strange := sorted(set(options) - _OPTIONS):
                raise _Refused(HTTPStatus.BAD_REQUEST, f"unknown option {strange[0]}: {', '.join(sorted(_OPTIONS))}")
            reads = len(parts) > 1 or "store" in options
            with self._reading if reads else nullcontext():  # even reading changes a driver's store: it sorts new keys
                return HTTPStatus.OK, _encoded(_answer(self._application, parts, options))
        except _Refused as refusal:
            return refusal.status, _encoded({"error": str(refusal)})
        except BaseException as error:  # a user's store or serde may raise anything, and this thread has no caller
            text = f"{type(error).__name__}: {message_of(error)}"
            return HTTPStatus.INTERNAL_SERVER_ERROR, _encoded({"error": text})

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

    def __init__(self, status: HTTPStatus, text: str) -> None:
        super().__init__(text)
        self.status = status


def _encoded(content: object) -> bytes:
    return json.dumps(content, default=_as_json, ensure_ascii=False).encode(errors="backslashreplace")


def _answer(application: ServedApplication, path: list[str], options: Mapping[str, str]) -> object:
    specs = _specs(application)
    match path:
        case ["health"]:
            return _health(application, specs, options)
        case ["" | "stores"]:
            return {name: spec.kind for name, spec in specs.items()}
        case ["stores", name]:
            return _rows(_view(application, specs, name), specs[name], options)
        case ["stores", name, key]:
            return _row(_view(application, specs, name), specs[name], _key(specs[name], key), options)
    raise _Refused(HTTPStatus.NOT_FOUND, "the paths are /stores, /stores/NAME, /stores/NAME/KEY and /health")


def _health(
    application: ServedApplication, specs: Mapping[str, StoreSpec], options: Mapping[str, str]
) -> Mapping[str, object]:
    """Return the state, and the row that was asked for; refuse if the application does not run."""
    state, slow, stuck = _state(application)
    if state != "running" or stuck:
        problem = f"the application is not running: {state}" if state != "running" else "the application is stuck"
        raise _Refused(HTTPStatus.SERVICE_UNAVAILABLE, problem if slow is None else f"{problem}; {slow}")
    name = options.get("store")
    if name is None:
        return {"state": state} if slow is None else {"state": state, "slow": slow}
    try:
        view = _view(application, specs, name)
        return {"state": state, "store": name, **_row(view, specs[name], _key(specs[name], options.get("key", "")), {})}
    except _Refused as refusal:
        if refusal.status is HTTPStatus.NOT_FOUND and name in specs:  # the key is missing, the store answers
            return {"state": state, "store": name, "value": None}
        raise
    except Exception as error:  # the store's own reason, of whatever kind
        raise _Refused(HTTPStatus.SERVICE_UNAVAILABLE, f'store "{name}" cannot be read: {error}') from error


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


def _view(application: ServedApplication, specs: Mapping[str, StoreSpec], name: str) -> _ReadableStore:
    if name not in specs:
        error = unknown("store", name, specs, error=StateError)
        raise _Refused(HTTPStatus.NOT_FOUND, "; ".join(filter(None, (error.message, error.detail, error.hint))))
    return cast("_ReadableStore", application.store(name, headers=True))


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
    raise _Refused(HTTPStatus.BAD_REQUEST, f'"{text}" is not a key of store "{spec.name}", whose serde is {name}')


def _times(options: Mapping[str, str]) -> tuple[int, int]:
    return _number(options, "from", 0), _number(options, "to", _FOREVER)


def _number(options: Mapping[str, str], name: str, default: int, least: int = -_FOREVER, most: int = _FOREVER) -> int:
    text = options.get(name)
    if text is None:
        return default
    with suppress(ValueError):
        if text.isascii() and least <= int(text) <= most:
            return int(text)
    span = "" if most == _FOREVER else f" from {least} to {most:,}"
    raise _Refused(HTTPStatus.BAD_REQUEST, f'{name} must be an integer{span}, got "{text}"')


def _rows(view: _ReadableStore, spec: StoreSpec, options: Mapping[str, str]) -> list[dict[str, object]]:
    """Return the rows of a store, or those between two keys or times."""
    limit = _number(options, "limit", _MOST_ROWS, 1, _MOST_ROWS)
    return [_shown(key, row) for key, row in islice(_selected(view, spec, options), limit)]


def _selected(view: _ReadableStore, spec: StoreSpec, options: Mapping[str, str]) -> Iterator[tuple[object, object]]:
    if spec.kind == "versioned":
        raise _Refused(HTTPStatus.BAD_REQUEST, f"name a key of a versioned store: /stores/{spec.name}/KEY")
    if "window" in spec.kind:
        return iter(view.fetch_all(*_times(options)))
    if spec.kind == "session":
        return iter(view.find_sessions_between(None, None, *_times(options)))
    if "prefix" in options:
        return iter(view.prefix_scan(_key(spec, options["prefix"])))
    ends = [_key(spec, options[end]) if end in options else None for end in ("from", "to")]
    return iter(view.range(ends[0], ends[1]) if any(end is not None for end in ends) else view.all())


def _row(view: _ReadableStore, spec: StoreSpec, key: object, options: Mapping[str, str]) -> dict[str, object]:
    """Return the row of a key, or its windows or sessions."""
    if "window" in spec.kind:
        size = spec.window_size_ms or 0
        starts = cast("Iterable[tuple[int, object]]", view.fetch(key, *_times(options)))
        rows: list[tuple[object, object]] = [(Windowed(key, start, start + size), row) for start, row in starts]
    elif spec.kind == "session":
        rows = list(view.fetch(key))
    else:
        as_of = [_number(options, "as_of", 0)] if spec.kind == "versioned" and "as_of" in options else []
        row = view.get(key, *as_of)
        if row is not None:
            return _shown(key, row)
        rows = []
    if not rows:
        shown = json.dumps(key, default=_as_json)
        raise _Refused(HTTPStatus.NOT_FOUND, f'store "{spec.name}" has nothing for key {shown}')
    return {"key": key, "rows": [_shown(windowed, row) for windowed, row in islice(rows, _MOST_ROWS)]}


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
