"""Changelogs as Kafka Streams writes them: ``python -m tests.java.changelogs`` records them.

Needs what ``make test-java`` builds. The recording is checked in, so that the comparison needs no Java.
"""

from __future__ import annotations

import lzma
import subprocess
import tempfile
from pathlib import Path

import kstreamnb as ks
from kstreamnb.kafka.java import java
from tests.java.feeds import input_records
from tests.java.runner import JARS
from tests.java.topologies import build

__all__ = ["EXAMPLE_NAMES", "NAMES", "kept", "written"]

NAMES = (
    "suppress-windows",
    "suppress-table",
    "stream-left-join",
    "stream-outer-join",
    "stream-left-join-in-memory",
    "sessions",
    "versioned-join",
    "table-outer-join",
)
EXAMPLE_NAMES = ("page-view", "temperature", "music", "orders")
"""Of Kafka's examples, those whose values have no blanks."""
_KEPT = Path(__file__).with_name("changelogs.txt.xz")


def kept() -> dict[str, list[list[str]]]:
    """Java's records by topology: topic, time ("null" if the producer sets it), key, value, headers."""
    found: dict[str, list[list[str]]] = {}
    for line in lzma.decompress(_KEPT.read_bytes()).decode().splitlines():
        name, *record = line.split(" ")
        found.setdefault(name, []).append(record)
    return found


def written(name: str) -> list[list[str]]:
    """Return the driver's records in the same form."""
    settings = {"application.id": "app", "cache_max_bytes": 0, "default_key_serde": "string"}
    driver = ks.TopologyTestDriver(build(name, "p"), {**settings, "default_value_serde": "string"}, changelogs=True)
    for record in input_records(name, "p"):
        driver.pipe([record])  # one by one, as Java's driver does: together they would be merged by time
    found = []
    for topic in sorted(topic for topic in driver.produced_topic_names() if topic.endswith("-changelog")):
        for record in driver.create_output_topic(topic, "bytes", "bytes").read_records():
            headers = "".join(f"{key}={_hex(value)}" for key, value in record.headers) or "-"
            found.append([topic, str(record.timestamp), _hex(record.key), _hex(record.value), headers])
    return found


def _hex(data: bytes | None) -> str:
    return "-" if data is None else data.hex() or "empty"


def _ask(name: str) -> list[str]:
    rows = [f"{r.topic} {r.key} {r.value or '-'} {r.timestamp}" for r in input_records(name, "p")]
    with tempfile.TemporaryDirectory() as folder:
        command = [java(), "-cp", f"{JARS / 'classes'}:{JARS / 'lib'}/*", "kstreamnb.Changelogs", name, folder]
        done = subprocess.run(command, input="\n".join(rows), capture_output=True, text=True, check=True)
    return [f"{name} {line}" for line in done.stdout.splitlines()]


if __name__ == "__main__":
    _KEPT.write_bytes(
        lzma.compress("\n".join(line for name in (*NAMES, *EXAMPLE_NAMES) for line in _ask(name)).encode())
    )
