"""Serves a folder as static hosts do: under a path, with compressed text; counts the bytes it sends."""

from __future__ import annotations

import gzip
import mimetypes
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

__all__ = ["PREFIX", "StaticSite", "served_site"]

PREFIX = "/kstreamnb"
_COMPRESSED = (".css", ".html", ".ipynb", ".js", ".json", ".map", ".mjs", ".svg", ".txt", ".wasm", ".xml")


@dataclass
class StaticSite:
    """A folder served at an address on this machine."""

    url: str
    bytes_sent: int = 0
    missing: list[str] = field(default_factory=list)
    requests: int = 0


@cache
def _body(path: Path) -> tuple[bytes, bool]:
    compressed = path.suffix in _COMPRESSED
    return (gzip.compress(path.read_bytes()) if compressed else path.read_bytes()), compressed


@contextmanager
def served_site(folder: Path) -> Iterator[StaticSite]:
    """Serve a folder under a path until the block ends; like hosts, compress its files before the first visit."""
    for path in filter(Path.is_file, folder.rglob("*")):
        _body(path)
    site = StaticSite("")
    counting = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            path = folder / unquote(urlsplit(self.path).path).removeprefix(PREFIX).lstrip("/")
            path = path / "index.html" if path.is_dir() else path
            body, compressed = _body(path) if path.is_file() else (b"", False)
            self.send_response(200 if path.is_file() else 404)
            self.send_header("Content-Type", mimetypes.guess_type(path.name)[0] or "application/octet-stream")
            self.send_header("Content-Length", str(len(body)))
            if compressed:
                self.send_header("Content-Encoding", "gzip")
            self.end_headers()
            self.wfile.write(body)
            with counting:
                site.requests += 1
                site.bytes_sent += len(body)
                site.missing += [] if path.is_file() else [self.path]

        def log_message(self, *_: object) -> None:
            """Suppress the log line of a request."""

    mimetypes.add_type("text/javascript", ".mjs")
    mimetypes.add_type("application/wasm", ".wasm")
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        site.url = f"http://127.0.0.1:{server.server_port}{PREFIX}"
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield site
        server.shutdown()
