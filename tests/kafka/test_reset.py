"""Forgetting an application."""

from __future__ import annotations

import time

import pytest
from confluent_kafka import Consumer

from kstreamnb.background import wait_until
from kstreamnb.core.record import TopicRecord
from kstreamnb.errors import ApplicationStateError, CheckpointError, ConfigError, FencedError
from kstreamnb.kafka.application_reset import committed_positions, reset
from kstreamnb.kafka.output_batch import columns_of
from kstreamnb.kafka.producer import produce
from kstreamnb.kafka.storage.checkpoint_files import LocalFiles
from kstreamnb.kafka.transactional_writer import TransactionalWriter
from kstreamnb.topology.topology import Topology
from tests.kafka.apps import PATIENCE_S

pytestmark = pytest.mark.kafka


def test_a_reset_application_begins_anew(servers, topic, admin, name, tmp_path):
    """Marker, internal topics, group and checkpoint are deleted; inputs and outputs remain; a running query is
    fenced.
    """
    out, changelog, other = topic(1, "-out"), topic(1, "-store-changelog"), topic(1, "ly-store-changelog")
    running = TransactionalWriter(servers, name, "q1", config={"message.timeout.ms": 5_000})
    running.open()
    running.publish(0, "offsets", columns_of([(out, 0, 5, b"k", b"v", ())]), {out: {0: 1}})
    checkpoint = tmp_path / "checkpoint"
    checkpoint.mkdir()
    (checkpoint / "metadata").write_text("{}")
    assert wait_until(lambda: committed_positions(admin, name), PATIENCE_S)  # a moment after the output is readable
    plan = reset(servers, name, checkpoint=checkpoint, dry_run=True)
    assert (tuple(sorted([f"{name}-commits", changelog])), True, LocalFiles(checkpoint)) == (
        plan.topics,
        plan.group,
        plan.checkpoint,
    )
    assert f"delete topic {changelog}" in str(plan)
    assert checkpoint.exists()
    assert plan == reset(servers, name, checkpoint=checkpoint)
    assert not checkpoint.exists()
    there = admin.topics()
    assert (True, True, False) == (out in there, other in there, changelog in there)
    assert "nothing to delete" in str(reset(servers, name, dry_run=True))
    with pytest.raises(FencedError):
        running.publish(1, "more", columns_of([(out, 0, 5, b"k", b"v", ())]))
    assert TransactionalWriter(servers, name, "q2").open() is None


def test_a_deployment_to_spark_is_not_reset_without_its_checkpoint(servers, admin, name, tmp_path):
    """Its group has no members while it runs: only the lock of its checkpoint shows if it does."""
    running = TransactionalWriter(servers, name, "q1")
    running.open()
    running.publish(0, "offsets", [])
    with pytest.raises(ApplicationStateError, match=f'"{name}" may be running') as refused:
        reset(servers, name)
    assert "pass the deployment's checkpoint" in str(refused.value.hint)
    assert f"{name}-commits" in admin.topics()
    running.publish(1, "more", [])
    running.close()
    assert (f"{name}-commits",) == reset(servers, name, force=True).topics
    assert f"{name}-commits" not in admin.topics()


def test_with_the_topology_exactly_its_own_topics_go(servers, topic, name):
    """Names that only look similar are kept."""
    topic(1, "-x-changelog")
    assert () == reset(servers, name, topology=Topology(), dry_run=True).topics
    assert (f"{name}-x-changelog",) == reset(servers, name, dry_run=True).topics


def test_the_next_deployment_begins_within_the_topic(servers, topic, name):
    """At a time before now, and at offsets that are limited to those that the topic has."""
    orders = topic(2)
    produce(servers, [TopicRecord(orders, 0, at, 1 + at, "a", at) for at in range(3)], keep_partitions=True)

    def begin(**options):
        return reset(servers, name, dry_run=True, **{"input_topics": [orders], **options}).positions[orders]

    assert {0: 3, 1: 0} == begin(by_duration="1h")
    assert {0: 0, 1: 0} == begin(by_duration="200000d")
    assert {0: 3, 1: 0} == begin(to=5)
    assert {0: 3, 1: 0} == begin(input_topics={orders: {0: 200}})
    with pytest.raises(ConfigError, match='"7" does not exist'):
        begin(input_topics={orders: {7: 1}})


def test_an_application_with_members_or_a_wrong_folder_is_refused(servers, topic, name, tmp_path):
    """A group with active readers is in use; a folder that is not a checkpoint is not deleted."""
    orders = topic(1)
    member = Consumer({"bootstrap.servers": servers, "group.id": name})
    member.subscribe([orders])
    end = time.monotonic() + PATIENCE_S
    while not member.assignment() and time.monotonic() < end:
        member.poll(0.1)
    with pytest.raises(ApplicationStateError, match=r"has 1 active member\n"):
        reset(servers, name, dry_run=True)
    member.close()
    with pytest.raises(CheckpointError, match=f'folder "{tmp_path}" is not a checkpoint'):
        reset(servers, name, checkpoint=tmp_path, dry_run=True)
    for force in (False, True):
        with pytest.raises(CheckpointError, match=r'checkpoint ".*mistyped" does not exist'):
            reset(servers, name, checkpoint=tmp_path / "mistyped", force=force, dry_run=True)


def test_a_checkpoint_of_another_application_is_not_deleted(servers, name, tmp_path):
    """A mistyped id must not delete the state of another application; an unreadable page does not block a reset."""
    (tmp_path / "metadata").write_text("{}")
    (tmp_path / "kstreamnb.json").write_text('{"application": "shop"}')
    with pytest.raises(CheckpointError, match=f'"{tmp_path}" belongs to application "shop", not to "{name}"'):
        reset(servers, name, checkpoint=tmp_path)
    assert LocalFiles(tmp_path) == reset(servers, "shop", checkpoint=tmp_path, dry_run=True).checkpoint
    (tmp_path / "kstreamnb.json").write_text("damaged")
    assert LocalFiles(tmp_path) == reset(servers, name, checkpoint=tmp_path, dry_run=True).checkpoint
