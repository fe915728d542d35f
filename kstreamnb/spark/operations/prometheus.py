"""Offers the metrics of running queries to Prometheus, under the names of Kafka's JMX exporter."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from kstreamnb.spark.telemetry.metrics import Metric

if TYPE_CHECKING:  # the client comes with the extra "metrics"
    from prometheus_client import Metric as MetricFamily

_PREFIX = "kafka_streams_"


def exposed_name(metric: Metric) -> str:
    """Return the name of a metric in Prometheus.

    Example:
        >>> exposed_name(Metric("stream-thread-metrics", "process-total", (), 1.0))
        'kafka_streams_stream_thread_process_total'
    """
    return _PREFIX + f"{metric.group.removesuffix('-metrics')}_{metric.name}".replace("-", "_")


class MetricsCollector:
    """Reads the metrics at every scrape."""

    def __init__(self, read: Callable[[], Iterable[Metric]]) -> None:
        self._read = read

    def collect(self) -> Iterator[MetricFamily]:
        """Return a family of metrics for each name and its labels."""
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
