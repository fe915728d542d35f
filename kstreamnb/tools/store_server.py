"""Serves an application's stores over HTTP, read only, and by default on this machine only."""

from __future__ import annotations

import hmac
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from typing import TypeAlias
from urllib.parse import urlsplit

from kstreamnb.background import background, report
from kstreamnb.closing import Closing
from kstreamnb.core.arguments import check_arguments
from kstreamnb.errors import ConfigError
from kstreamnb.tools.store_app import HEADERS, ServedApplication, StoreApp, encoded

Respond: TypeAlias = Callable[[str, str], tuple[HTTPStatus, bytes]]
"""``respond(path, query)`` of a URL: the status and the body."""

_MOST_CONNECTIONS = 64
_IDLE_S = 5.0
_REQUEST_S = 15.0


class LocalServer(Closing):
    """An HTTP server, which runs until `close`, the end of its ``with`` block, or the end of the process.

    Args:
        server: the HTTP server, bound to its port.
    """

    def __init__(self, server: ThreadingHTTPServer) -> None:
        check_arguments(LocalServer.__init__, locals())
        self._server = server
        self.port: int = server.server_port
        self.url = f"http://{server.server_address[0]!s}:{self.port}"
        self._thread = background(server.serve_forever, "kstreamnb-serve")

    def close(self) -> None:
        """Stop the server."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} at {self.url}>"


class StoreServer(LocalServer):
    """Serves an application's stores over HTTP until `close`, or the end of its ``with`` block or the process.

    Args:
        server: the HTTP server, bound to its port.

    Attributes:
        url: the server's URL, such as ``http://127.0.0.1:8080``.
        port: the server's port.

    Example:
        >>> from urllib.request import urlopen
        >>> from kstreamnb import StreamsBuilder, TopologyTestDriver
        >>> builder = StreamsBuilder("shop")
        >>> prices = builder.table("prices", store="prices")
        >>> with serve(TopologyTestDriver(builder.build())) as server:
        ...     print(urlopen(server.url + "/stores").read().decode())
        {"prices": "timestamped_key_value"}
    """


def serve(
    application: ServedApplication,
    port: int = 0,
    *,
    host: str = "127.0.0.1",
    hosts: Iterable[str] = (),
    token: str | None = None,
) -> StoreServer:
    """Serve an application's stores over HTTP as JSON.

    - ``/stores``: the stores with their kinds.
    - ``/stores/NAME``: rows in the order of the store, 1,000 or ``?limit=`` at most; between the keys ``?from=`` and
      ``?to=``, or with keys that begin with ``?prefix=``. Of window and session stores, rows between two times.
    - ``/stores/NAME/KEY``: the row of a key; its windows or sessions between ``?from=`` and ``?to=``; of a versioned
      store, its value ``?as_of=`` a time. Write a key that is not text as JSON. Times are ms, or ISO text with a zone.
    - ``/health``: 200 while the application runs; 503 while it starts, after it was stopped or failed, if a batch is
      stuck at one record, or if a store cannot be read. It names a slow batch with its task, node and record.
      With ``?store=NAME&key=KEY`` it also reads that row.

    Unknown stores and keys return 404; invalid requests, and options that a path does not have, 400; each with the
    reason. A driver is read between two calls: while it processes records, readers wait up to 5 s, then get 503. At
    most 64 connections are open at once; a client that sends nothing for 5 s, or takes longer than 15 s, is
    disconnected. To serve other people, mount ``ks.monitoring.StoreApp`` in a service with a sign-in.

    Args:
        application: a `TopologyTestDriver`, an application of a `ClusterDriver`, or a `Query`.
        port: the port; by default any free one.
        host: the interface; by default only this machine.
        hosts: names by which clients may address the server, besides ``localhost`` and IP addresses. Others are
            refused: a web page could use its own name to read the stores (DNS rebinding). Default: none.
        token: a token that clients must send as ``Authorization: Bearer TOKEN``; by default none is needed.

    Raises: ConfigError if the port is taken, or the interface is unknown.

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
    check_arguments(serve, locals())
    return StoreServer(BoundedServer(StoreApp(application).answer, HEADERS, port, host, hosts, token))


class BoundedServer(ThreadingHTTPServer):
    """Answers clients that know its name and its token; bounds the connections, and disconnects slow clients."""

    daemon_threads = True
    allow_reuse_address = os.name == "posix"  # on Windows two servers could then have one port
    request_queue_size = _MOST_CONNECTIONS  # with the default of 5, a burst of clients waits a second to connect

    def __init__(
        self, answer: Respond, headers: Mapping[str, str], port: int, host: str, hosts: Iterable[str], token: str | None
    ) -> None:
        try:
            super().__init__((host, port), _Handler)
        except (OSError, OverflowError, UnicodeError) as error:
            fact = f"cannot listen on {host!a}, port {port}"
            raise ConfigError(fact, detail=str(error), hint="port=0 picks a free port") from error
        self.answer, self.headers, self.token = answer, headers, token
        self.names = {"localhost", host.lower(), *(name.lower() for name in hosts)}
        self._deadlines: dict[socket.socket, float] = {}
        self._lock = threading.Lock()

    def process_request(self, request: socket.socket, client_address: object) -> None:  # type: ignore[override]
        """Answer in a thread, unless too many do already."""
        with self._lock:
            full = len(self._deadlines) >= _MOST_CONNECTIONS
            if not full:
                self._deadlines[request] = time.monotonic() + _REQUEST_S
        if full:
            self.shutdown_request(request)
        else:
            super().process_request(request, client_address)

    def shutdown_request(self, request: socket.socket) -> None:  # type: ignore[override]
        """Forget a connection and close it."""
        with self._lock:
            self._deadlines.pop(request, None)
        super().shutdown_request(request)

    def service_actions(self) -> None:
        """Disconnect clients that exceed their time; called twice a second."""
        with self._lock:
            late = [request for request, end in self._deadlines.items() if time.monotonic() > end]
            for request in late:
                try:
                    request.shutdown(socket.SHUT_RDWR)  # its thread reads the end, and closes it
                except OSError:
                    del self._deadlines[request]  # it is closed already

    def handle_error(self, request: object, client_address: object) -> None:
        """Report what is not a client that disconnects or is too slow, which is not an error of the application."""
        if not isinstance(sys.exception(), OSError):
            report("answering a request failed")


class _Handler(BaseHTTPRequestHandler):
    """One request."""

    server: BoundedServer
    server_version, sys_version = "kstreamnb", ""
    default_request_version = "HTTP/1.0"  # answers to malformed requests have headers, too
    timeout = _IDLE_S

    def do_GET(self) -> None:
        """Answer a question."""
        try:
            target, is_known = urlsplit(self.path), self._is_known(self.headers.get("Host", ""))
        except ValueError as error:
            self._send(HTTPStatus.BAD_REQUEST, encoded({"error": str(error)}))
            return
        if not is_known:
            self._send(
                HTTPStatus.FORBIDDEN, encoded({"error": "the server does not have that name: add it to hosts=[…]"})
            )
        elif not self._may_ask():
            self._send(HTTPStatus.UNAUTHORIZED, encoded({"error": "send the token: Authorization: Bearer TOKEN"}))
        else:
            self._send(*self.server.answer(target.path, target.query))

    def _is_known(self, host: str) -> bool:
        name = (urlsplit(f"//{host}").hostname or "").lower()
        try:
            ip_address(name)
        except ValueError:
            return name in self.server.names
        return True

    def _may_ask(self) -> bool:
        sent = self.headers.get("Authorization", "").encode()
        return self.server.token is None or hmac.compare_digest(sent, f"Bearer {self.server.token}".encode())

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Answer other methods and malformed requests as any other error, instead of with a page of HTML."""
        self._send(HTTPStatus(code), encoded({"error": message or HTTPStatus(code).phrase}))

    def _send(self, status: HTTPStatus, body: bytes) -> None:
        self.send_response(status)
        for name, value in self.server.headers.items():
            self.send_header(name, value)
        if status is HTTPStatus.UNAUTHORIZED:
            self.send_header("WWW-Authenticate", "Bearer")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Write nothing: a line for each request would appear below some cell."""
