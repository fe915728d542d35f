"""Kafka's own example applications, ported by the table of names alone; values are texts instead of JSON and Avro."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import kstreamnb as ks

__all__ = ["EXAMPLES", "INPUT"]

STRING, LONG = ks.Serdes.string(), ks.Serdes.long()
WORDS = ("all", "streams", "lead", "to", "Kafka")
REGIONS = ("europe", "asia", "africa")


def word_count(builder: Any, prefix: str) -> None:
    """WordCountDemo."""
    words = builder.stream(f"{prefix}-left").flat_map_values(lambda value: value.lower().split(" "))
    counts = words.group_by(lambda key, word: word).count(ks.Materialized.as_("counts-store"))
    counts.to_stream().to(f"{prefix}-out", ks.Produced.with_(STRING, LONG))


def page_view(builder: Any, prefix: str) -> None:
    """PageViewRegion: views by region of the user; windows of 10 s instead of 7 days."""
    regions = builder.table(f"{prefix}-right", materialized=ks.Materialized.as_("regions"))
    views = builder.stream(f"{prefix}-left").left_join(
        regions, lambda page, region: f"{'UNKNOWN' if region is None else region},{page}"
    )
    windows = ks.TimeWindows.of_size_with_no_grace("10s").advance_by("5s")
    counts = (
        views.map(lambda user, view: (view.split(",")[0], view))
        .group_by_key(ks.Grouped.as_("by-region"))
        .windowed_by(windows)
        .count(ks.Materialized.as_("views"))
    )
    rows = counts.to_stream().map(lambda key, count: (key.key, f"{key.start}-{key.end}={count}"))
    rows.to(f"{prefix}-out")


def temperature(builder: Any, prefix: str) -> None:
    """TemperatureDemo: the maximum of 5 s, if it is above 20."""
    windows = ks.TimeWindows.of_size_with_no_grace("5s")
    maxima = (
        builder.stream(f"{prefix}-left")
        .select_key(lambda key, value: "temp")
        .group_by_key()
        .windowed_by(windows)
        .reduce(lambda one, other: one if int(one) > int(other) else other)
    )
    serde = ks.Serdes.time_windowed(STRING, "5s")
    hot = maxima.to_stream().filter(lambda key, value: int(value) > 20)
    hot.to(f"{prefix}-out", ks.Produced.with_(serde, STRING))


def _charts(text: str, song: str, plays: int | None) -> str:
    """Replace one song in the chart ``song:plays;…`` of at most five."""
    counts = dict(row.split(":") for row in text.split(";") if row)
    counts.pop(song, None)
    if plays is not None:
        counts[song] = str(plays)
    best = sorted(counts.items(), key=lambda row: (-int(row[1]), row[0]))[:5]
    return ";".join(f"{name}:{count}" for name, count in best)


def music(builder: Any, prefix: str) -> None:
    """KafkaMusicExample: plays of at least 30 s by song, and the five best of each genre, for interactive queries."""
    songs = builder.table(f"{prefix}-right", materialized=ks.Materialized.as_("all-songs"))
    plays = (
        builder.stream(f"{prefix}-left")
        .filter(lambda user, play: int(play.split(",")[1]) >= 30)
        .map(lambda user, play: (play.split(",")[0], play))
        .repartition(ks.Repartitioned.as_("plays-by-song"))
        .left_join(songs, lambda play, genre: genre)
    )
    counted = plays.group_by(lambda song, genre: f"{song},{genre}", ks.Grouped.as_("by-song"))
    counts = counted.count(ks.Materialized.as_("song-play-count"))
    genres = counts.group_by(
        lambda song, count: (song.split(",")[1], f"{song.split(',')[0]}:{count}"), ks.Grouped.with_(STRING, STRING)
    )
    charts = genres.aggregate(
        lambda: "",
        lambda genre, row, chart: _charts(chart, row.split(":")[0], int(row.split(":")[1])),
        lambda genre, row, chart: _charts(chart, row.split(":")[0], None),
        ks.Materialized.as_("top-five-songs-by-genre"),
    )
    charts.to_stream().to(f"{prefix}-out")


def orders(builder: Any, prefix: str) -> None:
    """ValidationsAggregatorService of the order microservices: an order is valid after two checks have passed."""
    checks, placed = builder.stream(f"{prefix}-right"), builder.stream(f"{prefix}-left")
    passed = (
        checks.group_by_key()
        .windowed_by(ks.SessionWindows.of_inactivity_gap_with_no_grace("5m"))
        .aggregate(
            lambda: 0,
            lambda order, check, total: total + check.endswith("PASS"),
            lambda order, one, other: one + other,
            ks.Materialized.as_("passed").with_value_serde(LONG),
        )
    )
    complete = passed.to_stream(lambda window, total: window.key).filter(lambda order, total: (total or 0) >= 2)
    nearby = ks.JoinWindows.of_time_difference_with_no_grace("5m")
    valid = complete.join(
        placed,
        lambda total, order: order.replace("CREATED", "VALIDATED"),
        nearby,
        ks.StreamJoined.with_(STRING, LONG, STRING).with_name("order").with_store_name("order"),
    )
    valid.to(f"{prefix}-out", ks.Produced.with_(STRING, STRING))


EXAMPLES: dict[str, Callable[[Any, str], None]] = {
    "word-count": word_count,
    "page-view": page_view,
    "temperature": temperature,
    "music": music,
    "orders": orders,
}

Pair = tuple[str, str]
INPUT: dict[str, tuple[Callable[[Random, int], Pair], Callable[[Random, int], Pair] | None]] = {
    "word-count": (lambda chance, at: (f"line{at}", " ".join(chance.choices(WORDS, k=3))), None),
    "page-view": (
        lambda chance, at: (f"user{chance.randrange(9)}", f"page{chance.randrange(5)}"),
        lambda chance, at: (f"user{at % 8}", REGIONS[at % 3]),
    ),
    "temperature": (lambda chance, at: (f"sensor{at % 3}", str(chance.randrange(22))), None),
    "music": (
        lambda chance, at: (f"user{chance.randrange(9)}", f"song{chance.randrange(9)},{chance.randrange(90)}"),
        lambda chance, at: (f"song{at % 9}", ("rock", "punk", "jazz")[at % 3]),
    ),
    "orders": (
        lambda chance, at: (f"order{at // 2}", f"CREATED,customer{chance.randrange(5)}"),
        lambda chance, at: (f"order{chance.randrange(300)}", f"check{at % 3}:{chance.choice(['PASS', 'FAIL'])}"),
    ),
}
"""Key and value of the left and the right topic's records, given their number."""
