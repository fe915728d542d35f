"""The commands that talk to a broker."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest
from click.testing import CliRunner

from kstreamnb.cli import main
from kstreamnb.core.record import TopicRecord
from kstreamnb.kafka.admin import Admin
from kstreamnb.kafka.produce import produce
from kstreamnb.kafka.publisher import Publisher
from kstreamnb.samples import Sample

pytestmark = pytest.mark.kafka


def test_a_capture_becomes_a_file(servers, topic, tmp_path):
    """Each ending has its form, and all hold the same sample."""
    orders = topic(2)
    produce(servers, [TopicRecord(orders, 0, 0, 5 + n, f"k{n}", {"n": n}) for n in range(9)])
    for ending, read in (("parquet", Sample.from_parquet), ("jsonl", Sample.from_json_lines)):
        path = str(tmp_path / f"sample.{ending}")
        result = CliRunner().invoke(main, ["capture", "--servers", servers, orders, "-o", path])
        assert 0 == result.exit_code, result.output
        assert f"9 records, 0 undecodable, hash {read(path).content_hash}" in result.output
    text = str(tmp_path / "sample.md")
    CliRunner().invoke(
        main, ["capture", "--servers", servers, orders, "-o", text, "--hash-keys", "s", "--records", "4"]
    )
    assert text.endswith(".md")
    assert 2 < len((tmp_path / "sample.md").read_text().splitlines()) <= 5


def test_a_reset_asks_first(servers, name):
    """The plan is shown; nothing happens without a yes."""
    publisher = Publisher(servers, name, "q")
    publisher.open()
    publisher.publish(0, "offsets", [])
    publisher.close()
    command = ["reset", "--servers", servers, "--application-id", name]
    dry = CliRunner().invoke(main, [*command, "--dry-run"])
    assert f"delete topic {name}-commits" in dry.output
    assert 1 == CliRunner().invoke(main, command, input="n\n").exit_code
    assert f"{name}-commits" in Admin(servers).topics()
    assert "done" in CliRunner().invoke(main, command, input="y\n").output
    assert f"{name}-commits" not in Admin(servers).topics()


def test_a_broker_runs_until_it_is_interrupted():
    """The first line is its address; topics are there from the start."""
    process = subprocess.Popen(
        [sys.executable, "-m", "kstreamnb.cli", "broker", "--topic", "orders:3"], stdout=subprocess.PIPE, text=True
    )
    try:
        assert {"orders": 3} == Admin(process.stdout.readline().strip()).topics()
        process.send_signal(signal.SIGINT)
        assert 0 == process.wait(30)
    finally:
        process.kill()
        process.stdout.close()
