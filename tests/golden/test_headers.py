"""Stores with headers restored from the changelogs of Kafka Streams."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kstreamnb.testdriver.topology_test_driver import TopologyTestDriver
from tests.cases import for_every
from tests.golden.dump import dump_stores
from tests.golden.evaluate import build, start
from tests.golden.run import load

VECTORS = list(load([Path(__file__).with_name("vectors") / "headers.jsonl.xz"]))


def can_be_compared(vector: dict[str, Any]) -> bool:
    """Return whether the stores must show the same after a restart; a cache may show sessions that have expired."""
    spec = vector["spec"]
    return bool(vector["answer"]["changelogs"]) and not (spec.get("cache") and "session" in vector["name"])


RESTORED = list(filter(can_be_compared, VECTORS))


def restored(driver: TopologyTestDriver, changelogs: dict[str, list[Any]]) -> dict[str, Any]:
    """The rows of all stores that have headers, after a replay of their changelogs."""
    found = {}
    for name, store in driver.tasks.by_id["0_0"].stores.items():
        rows = changelogs.get(f"app-{name}-changelog")
        if rows is not None and store.keeps_headers:
            store.restore_changelog(
                [(_bytes(key), _data(value), time, _headers(row)) for key, value, time, row in rows]
            )
            found[name] = dump_stores(driver, [], cached=False)[name]
    return found


def _bytes(text: str) -> bytes:
    return bytes.fromhex(text)


def _data(text: str | None) -> bytes | None:
    return None if text is None else bytes.fromhex(text)


def _headers(row: list[Any]) -> tuple[tuple[str, bytes | None], ...]:
    return tuple((name, _data(text)) for name, text in row)


@for_every(RESTORED, lambda vector: vector["name"])
def test_a_changelog_of_kafka_streams_restores_rows_with_their_headers(vector: dict[str, Any]) -> None:
    """Keys, values, times and headers are those that Java's store had."""
    spec, answer = vector["spec"], vector["answer"]
    with start(build(spec), spec) as driver:
        found = restored(driver, answer["changelogs"])
    for name, store in found.items():
        assert "rows" not in answer["stores"][name] or answer["stores"][name]["rows"] == store["rows"]


def test_most_vectors_restore_a_store_with_headers() -> None:
    """Key-value, window and session stores, in memory and persistent, of processors and of the DSL."""
    names = " ".join(vector["name"] for vector in RESTORED)
    assert len(RESTORED) > 150
    assert all(word in names for word in ("kv.put", "kv.memory", "window.memory", "session.memory", "dsl.count"))
    assert (
        sum(len(row[3]) > 0 for each in RESTORED for rows in each["answer"]["changelogs"].values() for row in rows)
        > 300
    )
