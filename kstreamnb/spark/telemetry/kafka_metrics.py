"""Every metric of Kafka Streams: which ones a query has, and where to look instead of the others."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from kstreamnb.core.tables import Tabular
from kstreamnb.data_files import rows_of


class KafkaMetric(NamedTuple):
    """A metric of Kafka Streams 4.3: whether ``query.metrics()`` has it, and its unit, or where to look instead."""

    group: str
    name: str
    is_given: bool
    note: str


class KafkaMetrics(Tabular, tuple[KafkaMetric, ...]):
    """Metrics of Kafka Streams, by group and name."""

    header = ("group", "name", "here", "")

    @property
    def title(self) -> str:
        """Count the metrics and those that queries have."""
        return f"{len(self)} metrics of Kafka Streams, {sum(each.is_given for each in self)} of them here"

    def table(self) -> Iterator[tuple[str, ...]]:
        """Yield one row per metric."""
        for group, name, is_given, note in self:
            yield group, name, "given" if is_given else "no meaning", note


@cache
def kafka_metrics() -> KafkaMetrics:
    """Return every metric that Kafka Streams registers for an application, and its equivalent in a query.

    Metrics of Kafka's clients (consumer, producer, admin) are not listed: Spark reads, and librdkafka writes.

    Example:
        >>> kafka_metrics()
        <184 metrics of Kafka Streams, 25 of them here>
        >>> next(each for each in kafka_metrics() if each.name == "enforced-processing-total").note
        'a batch never waits for a partition'
    """
    rows = rows_of(__package__, "kafka_metrics.tsv")
    return KafkaMetrics(KafkaMetric(group, name, handling == "given", note) for group, name, handling, note in rows)
