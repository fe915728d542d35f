"""Charts of a running query: rates, batch time, lag and state over time."""

from __future__ import annotations

from collections.abc import Sequence

from kstreamnb.charts import Charts, Lines
from kstreamnb.spark.telemetry.metrics import BatchFigures

_TREND_MS = 30_000


def query_charts(application: str, recent: Sequence[BatchFigures], lags: Sequence[tuple[int, int]]) -> Charts:
    """Return the charts of a query from the figures of its last batches, and from readings of its lag."""
    times = [batch.at_ms for batch in recent]
    figures = (
        ("in", "records per batch", [batch.consumed for batch in recent]),
        ("out", "records per batch", [batch.published for batch in recent]),
        ("batch time", "ms", [round(batch.seconds * 1000) for batch in recent]),
        ("state", "bytes", [batch.state_bytes for batch in recent]),
        ("dropped", "records per batch", [batch.dropped for batch in recent]),
    )
    lines = [Lines(title, unit, tuple(zip(times, values, strict=True))) for title, unit, values in figures]
    return Charts(f'query "{application}"', (*lines, Lines("lag", "records", tuple(lags))))


def lag_trend(lags: Sequence[tuple[int, int]]) -> str:
    """Return how lag developed within the last half minute; empty if it was read only once.

    Example:
        >>> lag_trend([(0, 500), (10_000, 300)]), lag_trend([(0, 5), (10_000, 5)]), lag_trend([(0, 5)])
        ('falling', 'steady', '')
    """
    near = [records for at_ms, records in lags if lags[-1][0] - at_ms <= _TREND_MS]
    if len(near) < 2:
        return ""
    return "rising" if near[-1] > near[0] else "falling" if near[-1] < near[0] else "steady"
