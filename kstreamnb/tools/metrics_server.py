"""Serves the metrics of running queries to Prometheus, by default on this machine only."""

from __future__ import annotations

from collections.abc import Iterable
from http import HTTPStatus

from kstreamnb.core.arguments import check_arguments
from kstreamnb.errors import extra
from kstreamnb.spark.operations.prometheus import MetricsCollector
from kstreamnb.spark.query.active_queries import active
from kstreamnb.tools.store_app import SAFE
from kstreamnb.tools.store_server import BoundedServer, LocalServer


class MetricsServer(LocalServer):
    """An HTTP endpoint ``/metrics`` at ``url``, until `close` or the end of the process."""


def serve_metrics(
    port: int = 0, *, host: str = "127.0.0.1", hosts: Iterable[str] = (), token: str | None = None
) -> MetricsServer:
    """Serve the metrics of all active queries of this process in Prometheus' text format, at ``/metrics``.

    The server limits its clients as the server of `serve` does.

    Args:
        port: the port to listen on; 0 for any free one. Default: 0.
        host: the interface to listen on; by default only this machine.
        hosts: names by which Prometheus may address the server, besides ``localhost`` and IP addresses. Default: none.
        token: a token that Prometheus must send as ``Authorization: Bearer TOKEN``; by default none is needed.

    Raises:
        MissingPackageError: prometheus_client is not installed.
        ConfigError: the port is taken, or the interface is unknown.

    Example:
        >>> server = serve_metrics()
        >>> server.url.startswith("http://127.0.0.1:")
        True
        >>> server.close()
    """
    check_arguments(serve_metrics, locals())
    with extra("metrics"):
        from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

    registry = CollectorRegistry(auto_describe=False)
    registry.register(MetricsCollector(lambda: [metric for query in active() for metric in query.metrics()]))

    def answer(path: str, query: str) -> tuple[HTTPStatus, bytes]:
        return (HTTPStatus.OK, generate_latest(registry)) if path == "/metrics" else (HTTPStatus.NOT_FOUND, b"")

    headers = {"Content-Type": CONTENT_TYPE_LATEST, **SAFE}
    server = MetricsServer(BoundedServer(answer, headers, port, host, hosts, token))
    server.url += "/metrics"
    return server
