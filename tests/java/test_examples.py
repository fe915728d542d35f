"""Kafka's example applications in the driver; ``test_beside`` runs them beside Java."""

from __future__ import annotations

from collections import Counter
from typing import Any

import kstreamnb as ks
from tests.java.feeds import input_records
from tests.java.lab import run_in_driver


def side(name: str, which: str) -> list[ks.TopicRecord]:
    """Return the input of one topic, in the order of its offsets."""
    return [record for record in input_records(name, "d") if record.topic == f"d-{which}"]


def last(name: str, key_serde: Any = "string", value_serde: Any = "string") -> dict[Any, Any]:
    """Return the last value of each key of the output topic."""
    topic = run_in_driver(name).create_output_topic("d-out", key_serde, value_serde)
    return {record.key: record.value for record in topic.read_records()}


def test_word_count() -> None:
    """S0-22: every word of every line."""
    words = Counter(word for record in side("word-count", "left") for word in record.value.lower().split())
    assert last("word-count", value_serde="long") == words


def test_page_view() -> None:
    """S0-22: views of users without a region are of the region UNKNOWN; the last windows are complete."""
    regions = {record.key: record.value for record in side("page-view", "right")}
    views = side("page-view", "left")
    end = max(record.timestamp for record in views) // 5_000 * 5_000
    within = (record for record in views if record.timestamp >= end)
    counts = Counter(regions.get(record.key, "UNKNOWN") for record in within)
    assert last("page-view") == {region: f"{end}-{end + 10_000}={count}" for region, count in counts.items()}


def test_temperature() -> None:
    """S0-22: only maxima above 20."""
    hot = {record.timestamp // 5_000 * 5_000 for record in side("temperature", "left") if int(record.value) > 20}
    found = last("temperature", ks.Serdes.time_windowed(ks.Serdes.string(), "5s"))
    assert found == {ks.Windowed("temp", start, start + 5_000): "21" for start in hot}


def test_music_charts() -> None:
    """S0-22: plays of at least 30 s by genre, as an interactive query answers."""
    genres = {record.key: record.value for record in side("music", "right")}
    plays = [record.value.split(",") for record in side("music", "left")]
    counts = Counter(song for song, seconds in plays if int(seconds) >= 30)
    charts: dict[str, str] = {}
    for song, count in sorted(counts.items(), key=lambda row: (-row[1], row[0])):
        charts[genres[song]] = ";".join(filter(None, (charts.get(genres[song]), f"{song}:{count}")))
    driver = run_in_driver("music")
    assert dict(driver.store("top-five-songs-by-genre").all()) == charts
    assert dict(driver.get_key_value_store("song-play-count").all()) == {
        f"{song},{genres[song]}": count for song, count in counts.items()
    }


def test_orders() -> None:
    """S0-22: valid after two checks that have passed."""
    passed = Counter(record.key for record in side("orders", "right") if record.value.endswith("PASS"))
    customers = {record.key: record.value.partition(",")[2] for record in side("orders", "left")}
    valid = {order for order, count in passed.items() if count >= 2 and order in customers}
    assert last("orders") == {order: f"VALIDATED,{customers[order]}" for order in valid}
