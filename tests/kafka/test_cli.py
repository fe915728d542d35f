"""The commands that talk to a broker."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys

import pytest

from kstreamnb.core.record import TopicRecord
from kstreamnb.kafka.admin import Admin
from kstreamnb.kafka.application_reset import reset_positions
from kstreamnb.kafka.producer import produce
from kstreamnb.kafka.transactional_writer import TransactionalWriter
from kstreamnb.samples import Sample
from tests.command_line import invoke
from tests.kafka.apps import PATIENCE_S

pytestmark = pytest.mark.kafka

TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"


def test_a_capture_becomes_a_file(servers, topic, tmp_path):
    """Each file extension has its format, and all hold the same sample."""
    orders = topic(2)
    produce(servers, [TopicRecord(orders, 0, 0, 5 + n, f"k{n}", {"n": n}) for n in range(9)])
    command = ["capture", "--servers", servers, orders, "--seconds", str(PATIENCE_S)]
    for ending, read in (("parquet", Sample.from_parquet), ("jsonl", Sample.from_json_lines)):
        path = str(tmp_path / f"sample.{ending}")
        result = invoke([*command, "-o", path])
        assert 0 == result.exit_code, result.output
        assert f"9 records, 0 undecodable, hash {read(path).content_hash}" in result.output
    text = str(tmp_path / "sample.md")
    invoke([*command, "-o", text, "--hash-keys", "s", "--records", "4"])
    assert text.endswith(".md")
    assert 2 < len((tmp_path / "sample.md").read_text().splitlines()) <= 5


def test_a_reset_asks_first(servers, name):
    """The plan is shown; nothing happens without confirmation."""
    writer = TransactionalWriter(servers, name, "q")
    writer.open()
    writer.publish(0, "offsets", [])
    writer.close()
    command = ["reset", "--servers", servers, "--application-id", name]
    refused = invoke([*command, "--yes"])
    assert (1, True) == (refused.exit_code, "may be running" in refused.output)
    command.append("--force")
    dry = invoke([*command, "--dry-run"])
    assert f"delete topic {name}-commits" in dry.output
    assert 1 == invoke(command, input="n\n").exit_code
    assert f"{name}-commits" in Admin(servers).topics()
    assert "done" in invoke(command, input="y\n").output
    assert f"{name}-commits" not in Admin(servers).topics()


def test_a_reset_takes_offsets_from_a_file(servers, topic, name, tmp_path):
    """S3-18: lines of topic, partition and offset, as in Kafka's tool; a malformed line is named."""
    orders = topic(2, "-in")
    produce(servers, [TopicRecord(orders, n % 2, n // 2, 5 + n, f"k{n}", n) for n in range(8)])
    plan = tmp_path / "offsets.csv"
    plan.write_text(f"{orders},0,3\n{orders},1,2\n\n")
    command = ["reset", "--servers", servers, "--application-id", name, "--from-file", str(plan)]
    assert f"begin topic {orders} at offsets 0: 3, 1: 2" in invoke([*command, "--yes"]).output
    assert {orders: {0: 3, 1: 2}} == reset_positions(Admin(servers), name)
    assert "choose only one option" in invoke([*command, "--to-latest"]).output
    plan.write_text("orders;0;3")
    assert 'line 1 is not topic,partition,offset: "orders;0;3"' in invoke(command).output


@pytest.fixture
def local(tmp_path):
    """A broker in a separate process, which has printed its address and leaves temporary folders in a folder."""
    process = subprocess.Popen(
        [sys.executable, "-m", "kstreamnb", "broker", "--topic", "orders:3"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    with process:
        try:
            assert {"orders": 3} == Admin(process.stdout.readline().strip()).topics()
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM], ids=["Ctrl-C", "SIGTERM"])
def test_a_broker_runs_until_it_is_told_to_end(local, tmp_path, sent):
    """The first line of output is its address; topics exist from the start; its folder is removed at the end."""
    local.send_signal(sent)
    assert 0 == local.wait(120)
    assert [] == [*tmp_path.iterdir()]


def test_a_broker_that_dies_ends_its_command_with_an_error(local, tmp_path):
    """Exit code 1, with the end of its log, so that a service manager starts it again."""
    (folder,) = tmp_path.glob("kstreamnb-broker-*")
    processes = subprocess.run(["ps", "-wweo", "pid=,comm=,args="], capture_output=True, text=True, check=True).stdout
    (java,) = (line.split()[0] for line in processes.splitlines() if line.split()[1] == "java" and str(folder) in line)
    os.kill(int(java), signal.SIGKILL)
    _, errors = local.communicate(timeout=120)
    assert 1 == local.returncode, errors
    assert errors.startswith(f"BrokerError: the local broker ended with code 137\nDetail: the last lines of {folder}")


@pytest.mark.parametrize(
    ("send", "sent"),
    [(os.kill, signal.SIGINT), (os.kill, signal.SIGTERM), (os.killpg, signal.SIGTERM), (os.killpg, signal.SIGHUP)],
    ids=["Ctrl-C", "SIGTERM", "SIGTERM-to-all", "terminal-closes"],
)
def test_a_deployment_ends_cleanly_when_it_is_told_to(servers, topic, name, tmp_path, send, sent):
    """Exit code 0 and no traceback, as service managers expect; they also signal Spark's processes."""
    orders = topic(1)
    (tmp_path / "shop.py").write_text(
        f"import kstreamnb as ks\nbuilder = ks.StreamsBuilder({name!r})\n"
        f"builder.stream({orders!r}).to({topic(1, '-out')!r})\ntopology = builder.build()\n"
    )
    command = ["deploy", "--servers", servers, "shop:topology", "--checkpoint", str(tmp_path / "checkpoint")]
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # the suite may run with nohup, which has it ignored
    with subprocess.Popen(
        [sys.executable, "-m", "kstreamnb", *command],
        cwd=tmp_path,
        start_new_session=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert f"{name} runs; Ctrl-C stops it" in process.stdout.readline()
            send(process.pid, sent)
            _, errors = process.communicate(timeout=120)
        finally:
            process.kill()
            signal.signal(signal.SIGHUP, before)
    assert 0 == process.returncode, errors
    assert 2 == len(errors.splitlines()), errors
    started, stopped = errors.splitlines()
    assert re.fullmatch(rf"{TIME} {name}: started \(checkpoint .*/checkpoint, batch -1\)", started)
    assert re.fullmatch(rf"{TIME} {name}: stopped \(batch -?\d+\)", stopped)
