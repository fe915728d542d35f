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
from kstreamnb.kafka.application_reset import reset_positions
from kstreamnb.kafka.producer import produce
from kstreamnb.kafka.transactional_writer import TransactionalWriter
from kstreamnb.samples import Sample

pytestmark = pytest.mark.kafka


def test_a_capture_becomes_a_file(servers, topic, tmp_path):
    """Each file extension has its format, and all hold the same sample."""
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
    """The plan is shown; nothing happens without confirmation."""
    writer = TransactionalWriter(servers, name, "q")
    writer.open()
    writer.publish(0, "offsets", [])
    writer.close()
    command = ["reset", "--servers", servers, "--application-id", name]
    refused = CliRunner().invoke(main, [*command, "--yes"])
    assert (1, True) == (refused.exit_code, "may be running" in refused.output)
    command.append("--force")
    dry = CliRunner().invoke(main, [*command, "--dry-run"])
    assert f"delete topic {name}-commits" in dry.output
    assert 1 == CliRunner().invoke(main, command, input="n\n").exit_code
    assert f"{name}-commits" in Admin(servers).topics()
    assert "done" in CliRunner().invoke(main, command, input="y\n").output
    assert f"{name}-commits" not in Admin(servers).topics()


def test_a_reset_takes_offsets_from_a_file(servers, topic, name, tmp_path):
    """S3-18: lines of topic, partition and offset, as in Kafka's tool; a malformed line is named."""
    orders = topic(2, "-in")
    produce(servers, [TopicRecord(orders, n % 2, n // 2, 5 + n, f"k{n}", n) for n in range(8)])
    plan = tmp_path / "offsets.csv"
    plan.write_text(f"{orders},0,3\n{orders},1,2\n\n")
    command = ["reset", "--servers", servers, "--application-id", name, "--from-file", str(plan)]
    assert f"begin topic {orders} at offsets 0: 3, 1: 2" in CliRunner().invoke(main, [*command, "--yes"]).output
    assert {orders: {0: 3, 1: 2}} == reset_positions(Admin(servers), name)
    assert "choose only one option" in CliRunner().invoke(main, [*command, "--to-latest"]).output
    plan.write_text("orders;0;3")
    assert 'line 1 is not topic,partition,offset: "orders;0;3"' in CliRunner().invoke(main, command).output


def test_a_broker_runs_until_it_is_interrupted():
    """The first line of output is its address; topics exist from the start."""
    process = subprocess.Popen(
        [sys.executable, "-m", "kstreamnb.cli", "broker", "--topic", "orders:3"], stdout=subprocess.PIPE, text=True
    )
    try:
        assert {"orders": 3} == Admin(process.stdout.readline().strip()).topics()
        process.send_signal(signal.SIGINT)
        assert 0 == process.wait(120)
    finally:
        process.kill()
        process.stdout.close()


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM], ids=["Ctrl-C", "SIGTERM"])
def test_a_deployment_ends_cleanly_when_it_is_told_to(servers, topic, name, tmp_path, sent):
    """Exit code 0 and no traceback, as service managers expect."""
    orders = topic(1)
    (tmp_path / "shop.py").write_text(
        f"import kstreamnb as ks\nbuilder = ks.StreamsBuilder({name!r})\n"
        f"builder.stream({orders!r}).to({topic(1, '-out')!r})\ntopology = builder.build()\n"
    )
    command = ["deploy", "--servers", servers, "shop:topology", "--checkpoint", str(tmp_path / "checkpoint")]
    with subprocess.Popen(
        [sys.executable, "-m", "kstreamnb.cli", *command],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert f"{name} runs; Ctrl-C stops it" in process.stdout.readline()
            process.send_signal(sent)
            _, errors = process.communicate(timeout=120)
        finally:
            process.kill()
    assert (0, "") == (process.returncode, errors)
