"""Queries for the panel: a real deployment on Spark over records in a file, so that no broker is needed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import kstreamnb as ks
from kstreamnb.spark.query import Query
from tests.spark.streams import batched, placed, query_over

__all__ = ["counting"]


def checked(value: Any) -> Any:
    """Refuses one value."""
    if value == "boom":
        raise ValueError("<script>alert(1)</script> is not a price")
    return value


def counting(folder: Path, values: list[Any]) -> Query:
    """A query that counts these values by key, in windows, in two micro-batches; it ends when all are processed."""
    builder = ks.StreamsBuilder("prices")
    prices = builder.stream("prices").map_values(checked, name="check").group_by_key()
    windows = ks.TimeWindows.of_size_and_grace("1s", "0s")
    prices.windowed_by(windows).count(store="per-second").to_stream(lambda key, count: str(key)).to(
        "counts", value_serde="long"
    )
    rows = [("prices", f"k{at % 3}", value, at * 500 if at != 7 else 0) for at, value in enumerate(values)]
    folder.mkdir(parents=True)
    deployment = placed(builder.build(), 2)
    query, _ = query_over(ks.spark_session(), folder, deployment, batched(deployment, rows, 2))
    return query
