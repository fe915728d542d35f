"""Interactive queries over HTTP: the stores of a running application as JSON, and whether it is alive.

Read only, and on this machine only unless told otherwise: an application that opens its stores to others stands behind
whatever its team uses for authentication.
"""

from __future__ import annotations

import dataclasses
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import islice
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit
from uuid import UUID

from kstreamnb.core.record import ValueAndTimestamp, Windowed
from kstreamnb.core.stores import VersionedRecord
from kstreamnb.errors import did_you_mean

__all__ = ["StoreServer", "serve"]

_MOST_ROWS = 1_000
_FOREVER = (1 << 63) - 1
_QUESTIONS = {"limit", "from", "to", "prefix", "store", "key", "as_of"}


class StoreServer:
    """Stores of an application over HTTP; made by `serve`. It ends with `close`, with its block or with the process.

    Attributes:
        url: where it answers, such as ``http://127.0.0.1:8080``.
        port: the port of it.

    Example:
        >>> from urllib.request import urlopen
        >>> from kstreamnb import StreamsBuilder, TopologyTestDriver
        >>> builder = StreamsBuilder("shop")
        >>> prices = builder.table("prices", store="prices")
        >>> with serve(TopologyTestDriver(builder.build())) as server:
        ...     print(urlopen(server.url + "/stores").read().decode())
        {"prices": "timestamped_key_value"}
    """

    def __init__(self, server: ThreadingHTTPServer) -> None:
        self._server = server
        self._thread = threading.Thread(target=server.serve_forever, name="kstreamnb-serve", daemon=True)
        self.port: int = server.server_port
        self.url = f"http://{server.server_address[0]!s}:{self.port}"
        self._thread.start()

    def close(self) -> None:
        """Stop answering."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> StoreServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<StoreServer at {self.url}>"


def serve(application: Any, port: int = 0, *, host: str = "127.0.0.1") -> StoreServer:
    """Answer questions about an application's stores over HTTP, as JSON.

    - ``/stores``: the stores there are, with their kinds.
    - ``/stores/NAME``: rows in the order of the store, 1,000 at most or ``?limit=``; between the keys ``?from=`` and
      ``?to=``, or of the keys that begin with ``?prefix=``. Of window and session stores, rows between two times in ms.
    - ``/stores/NAME/KEY``: the row of a key; its windows between ``?from=`` and ``?to=``; its sessions; its value
      ``?as_of=`` a time in ms. A key that is no text is written as JSON.
    - ``/health``: 200 while the application runs, 503 while it starts, when it was stopped, has failed or a store
      cannot be read; ``?store=NAME&key=KEY`` reads that row, too.

    Unknown stores and keys answer 404, questions that make no sense 400, each with the reason.

    Args:
        application: a `TopologyTestDriver`, an application of a `ClusterDriver`, or a `Query`.
        port: where to listen; 0 for any free one.
        host: the interface; only this machine by default.

    Example:
        >>> import json, urllib.request
        >>> from kstreamnb import StreamsBuilder, TopologyTestDriver
        >>> builder = StreamsBuilder("site")
        >>> clicks = builder.stream("clicks").group_by_key().count(store="clicks-per-user")
        >>> driver = TopologyTestDriver(builder.build())
        >>> for page in ("home", "shop", "cart"):
        ...     driver.create_input_topic("clicks").pipe_input("u2", page, at=0)
        >>> with serve(driver) as server:
        ...     with urllib.request.urlopen(f"{server.url}/stores/clicks-per-user/u2") as answer:
        ...         print(json.load(answer))
        {'key': 'u2', 'value': 3, 'timestamp': 0}
    """
    if not hasattr(application, "topology") or _reader(application) is None:
        raise TypeError(f"serve() takes a driver, its application or a query, not {type(application).__name__}")
    handler = type("Handler", (_Handler,), {"application": application})
    return StoreServer(ThreadingHTTPServer((host, port), handler))


class _Refused(Exception):
    """A question that has no answer: a status, and what to say."""

    def __init__(self, status: HTTPStatus, text: str) -> None:
        super().__init__(text)
        self.status = status


class _Handler(BaseHTTPRequestHandler):
    """One request; knows the application that is asked."""

    application: Any
    server_version = "kstreamnb"

    def do_GET(self) -> None:
        """Answer a question."""
        place = urlsplit(self.path)
        path = [unquote(part) for part in place.path.strip("/").split("/")]
        try:
            options = {name: values[-1] for name, values in parse_qs(place.query, keep_blank_values=True).items()}
            if strange := sorted(set(options) - _QUESTIONS):
                raise _Refused(HTTPStatus.BAD_REQUEST, f"unknown option {strange[0]}: {', '.join(sorted(_QUESTIONS))}")
            status, answer = HTTPStatus.OK, _answer(self.application, path, options)
        except _Refused as refusal:
            status, answer = refusal.status, {"error": str(refusal)}
        except Exception as error:  # whatever a store of somebody's own raises: who asks is told
            status, answer = HTTPStatus.INTERNAL_SERVER_ERROR, {"error": f"{type(error).__name__}: {error}"}
        self._send(status, answer)

    def _send(self, status: HTTPStatus, answer: Any) -> None:
        body = json.dumps(answer, default=_as_json, ensure_ascii=False).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json; charset=utf-8")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Write nothing: a line for each request would end up under some cell."""


def _answer(application: Any, path: list[str], options: dict[str, str]) -> Any:
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
    raise _Refused(HTTPStatus.NOT_FOUND, "there are /stores, /stores/NAME, /stores/NAME/KEY and /health")


def _health(application: Any, specs: Mapping[str, Any], options: dict[str, str]) -> Any:
    """The state, and a row that was asked for; a refusal where there is none."""
    state = _state(application)
    if state != "running":
        raise _Refused(HTTPStatus.SERVICE_UNAVAILABLE, f"the application is not running: {state}")
    name = options.get("store")
    if name is None:
        return {"state": state}
    try:
        view = _view(application, specs, name)
        return {"state": state, "store": name, **_row(view, specs[name], _key(specs[name], options.get("key", "")), {})}
    except _Refused as refusal:
        if refusal.status is HTTPStatus.NOT_FOUND and name in specs:  # a key may be missing, the store answers
            return {"state": state, "store": name, "value": None}
        raise
    except Exception as error:  # the store's own reason, of whatever kind
        raise _Refused(HTTPStatus.SERVICE_UNAVAILABLE, f'store "{name}" cannot be read: {error}') from error


def _state(application: Any) -> str:
    """What an application is doing, in a word."""
    status = getattr(application, "status", "running")
    return str(status(lag=False).state if callable(status) else status)


def _specs(application: Any) -> dict[str, Any]:
    topology = application.topology
    return dict(sorted({**topology.stores, **topology.global_stores}.items()))


def _view(application: Any, specs: Mapping[str, Any], name: str) -> Any:
    if name not in specs:
        there = f"there are {', '.join(specs) or 'none'}"
        hint = did_you_mean(name, specs)
        raise _Refused(HTTPStatus.NOT_FOUND, f'there is no store "{name}"; {there}{f"; {hint}" if hint else ""}')
    read: Any = _reader(application)
    return read(name)


def _reader(application: Any) -> Callable[[str], Any] | None:
    """What gives a view of a store by its name; None where there is no such thing."""
    return getattr(application, "get_state_store", None) or getattr(application, "store", None)


def _key(spec: Any, text: str) -> Any:
    """A key as it stands in an address: the first reading of it that the serde can write."""
    serde = spec.key_serde
    readings: list[Callable[[str], Any]] = [json.loads, UUID, str]
    for read in [str] if serde is None or serde.name == "string" else readings:
        with suppress(ValueError):  # SerdeError is one
            key = read(text)
            if serde is not None:
                serde.serialize(key)
            return key
    raise _Refused(HTTPStatus.BAD_REQUEST, f'"{text}" is no key of store "{spec.name}", whose serde is {serde.name}')


def _times(options: dict[str, str]) -> tuple[int, int]:
    return _number(options, "from", 0), _number(options, "to", _FOREVER)


def _number(options: dict[str, str], name: str, default: int) -> int:
    text = options.get(name)
    if text is None:
        return default
    if not text.lstrip("-").isdigit():
        raise _Refused(HTTPStatus.BAD_REQUEST, f'{name} is a whole number, not "{text}"')
    return int(text)


def _rows(view: Any, spec: Any, options: dict[str, str]) -> list[dict[str, Any]]:
    """The rows of a store, or those between two keys or times."""
    limit = _number(options, "limit", _MOST_ROWS)
    return [_shown(key, row) for key, row in islice(_found(view, spec, options), max(0, limit))]


def _found(view: Any, spec: Any, options: dict[str, str]) -> Iterator[Any]:
    if spec.kind == "versioned":
        raise _Refused(HTTPStatus.BAD_REQUEST, f"a versioned store is asked for a key: /stores/{spec.name}/KEY")
    if "window" in spec.kind:
        return iter(view.fetch_all(*_times(options)))
    if spec.kind == "session":
        return iter(view.find_sessions_between(None, None, *_times(options)))
    if "prefix" in options:
        return iter(view.prefix_scan(_key(spec, options["prefix"])))
    ends = [_key(spec, options[end]) if end in options else None for end in ("from", "to")]
    return iter(view.range(*ends) if any(end is not None for end in ends) else view.all())


def _row(view: Any, spec: Any, key: Any, options: dict[str, str]) -> dict[str, Any]:
    """What a store has of a key."""
    if "window" in spec.kind:
        size = spec.window_size_ms or 0
        found = [(Windowed(key, start, start + size), row) for start, row in view.fetch(key, *_times(options))]
    elif spec.kind == "session":
        found = list(view.fetch(key))
    else:
        as_of = [_number(options, "as_of", 0)] if spec.kind == "versioned" and "as_of" in options else []
        row = view.get(key, *as_of)
        if row is not None:
            return _shown(key, row)
        found = []
    if not found:
        raise _Refused(
            HTTPStatus.NOT_FOUND, f'store "{spec.name}" has nothing for key {json.dumps(key, default=_as_json)}'
        )
    return {"key": key, "rows": [_shown(windowed, row) for windowed, row in islice(found, _MOST_ROWS)]}


def _shown(key: Any, row: Any) -> dict[str, Any]:
    """A row as JSON writes it."""
    place = {"key": key.key, "start": key.start, "end": key.end} if isinstance(key, Windowed) else {"key": key}
    if isinstance(row, ValueAndTimestamp | VersionedRecord):
        return {**place, "value": row.value, "timestamp": row.timestamp}
    return {**place, "value": row}


def _as_json(value: Any) -> Any:
    """What JSON has no word for: objects by their fields, bytes as hexadecimal digits, the rest as text."""
    if isinstance(value, bytes | bytearray):
        return value.hex()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    return str(value)
