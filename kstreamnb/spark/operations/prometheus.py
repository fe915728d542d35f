"""Serves the metrics of running queries to Prometheus, under the names of Kafka's JMX exporter."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from http.server import HTTPServer
from typing import TYPE_CHECKING

from kstreamnb.core.arguments import check_arguments, listening
from kstreamnb.errors import extra
from kstreamnb.spark.telemetry.metrics import Metric

if TYPE_CHECKING:  # the client comes with the extra "metrics"
    from prometheus_client import Metric as MetricFamily

_PREFIX = "kafka_streams_"


class MetricsServer:
    """An HTTP endpoint ``/metrics`` at ``url``, until `close` or the end of the process."""

    def __init__(self, server: HTTPServer, thread: threading.Thread, host: str) -> None:
        self._server, self._thread = server, thread
        self.port: int = server.server_port
        self.url = f"http://{host}:{self.port}/metrics"

    def close(self) -> None:
        """Stop the server."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __repr__(self) -> str:
        return f"<MetricsServer at {self.url}>"


def serve_metrics(port: int = 0, *, host: str = "127.0.0.1") -> MetricsServer:
    """Serve the metrics of all active queries of this process in Prometheus' text format.

    Args:
        port: the port to listen on; 0 for any free one. Default: 0.
        host: the interface to listen on; by default only this machine.

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
        from prometheus_client import CollectorRegistry, start_http_server
    from kstreamnb.spark.query.active_queries import active

    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collector(lambda: [metric for query in active() for metric in query.metrics()]))
    with listening(host, port):
        return MetricsServer(*start_http_server(port, addr=host, registry=registry), host)


def exposed_name(metric: Metric) -> str:
    """Return the name of a metric in Prometheus.

    Example:
        >>> exposed_name(Metric("stream-thread-metrics", "process-total", (), 1.0))
        'kafka_streams_stream_thread_process_total'
    """
    return _PREFIX + f"{metric.group.removesuffix('-metrics')}_{metric.name}".replace("-", "_")


class _Collector:
    """Reads the metrics at every scrape."""

    def __init__(self, read: Callable[[], Iterable[Metric]]) -> None:
        self._read = read

    def collect(self) -> Iterator[MetricFamily]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        families: dict[tuple[str, tuple[str, ...]], CounterMetricFamily | GaugeMetricFamily] = {}
        for metric in self._read():
            labels = tuple(name.replace("-", "_") for name, _ in metric.tags)
            name = exposed_name(metric)
            kind = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
            help_ = f'{metric.group} "{metric.name}" of Kafka Streams'
            family = families.setdefault((name, labels), kind(name.removesuffix("_total"), help_, labels=labels))
            family.add_metric([value for _, value in metric.tags], metric.value)
        yield from families.values()
