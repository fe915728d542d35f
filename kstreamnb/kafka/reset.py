"""Forget an application: what it keeps in Kafka, and its checkpoint, so that its next deployment begins anew.

Its input and output topics stay as they are: the new deployment writes its outputs once more.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer

from kstreamnb.errors import EngineError
from kstreamnb.kafka.admin import Admin
from kstreamnb.kafka.settings import Servers, connection, kafka_error
from kstreamnb.topology import Topology
from kstreamnb.topology.internal_topics import owned_topics

__all__ = ["ResetPlan", "plan_reset", "reset"]

_INTERNAL = ("-changelog", "-repartition")
_UNKNOWN_GROUP = {KafkaError.GROUP_ID_NOT_FOUND, KafkaError.COORDINATOR_NOT_AVAILABLE}
_CALL_S = 30.0


@dataclass(frozen=True)
class ResetPlan:
    """What a reset takes away: topics, the group's offsets, and the checkpoint folder."""

    application: str
    topics: tuple[str, ...]
    group: bool
    checkpoint: Path | None = None

    def __str__(self) -> str:
        lines = [f'reset of "{self.application}":']
        lines += [f"  delete topic {topic}" for topic in self.topics]
        lines += [f"  delete the offsets of group {self.application}"] if self.group else []
        lines += [f"  delete checkpoint {self.checkpoint.name}"] if self.checkpoint is not None else []
        return "\n".join(lines if len(lines) > 1 else [*lines, "  nothing to delete"])


def plan_reset(
    servers: Servers, application: str, *, topology: Topology | None = None, checkpoint: Path | str | None = None
) -> ResetPlan:
    """What a reset would take away; changes nothing.

    With the topology exactly its own topics are found. Without it they are found by their names, ``<application>-…``
    with an ending that says what they are; an application whose id is the beginning of another's takes that one's
    with it, so look at the plan. Raises EngineError while the group has members, or for a folder that is no
    checkpoint.
    """
    admin = Admin(servers)
    there = admin.topics()
    if topology is not None:
        owned = {topic.name for topic in owned_topics(topology, application)}
        found = [name for name in there if name in owned]
    else:
        found = [name for name in there if name.startswith(f"{application}-") and name.endswith(_INTERNAL)]
    marker = f"{application}-commits"
    found += [marker] if marker in there else []
    folder = None if checkpoint is None else Path(checkpoint)
    if folder is not None and folder.exists() and not (folder / "metadata").is_file():
        raise EngineError(
            f'folder "{folder.name}" is no checkpoint', detail="a checkpoint of Spark has a file named metadata"
        )
    exists = folder is not None and folder.exists()
    return ResetPlan(application, tuple(sorted(found)), _has_group(admin, application), folder if exists else None)


def reset(
    servers: Servers, application: str, *, topology: Topology | None = None, checkpoint: Path | str | None = None
) -> ResetPlan:
    """Take away what `plan_reset` says; gives the plan that was carried out.

    A deployment that still runs is fenced first: it fails with its next batch and publishes nothing more.
    """
    plan = plan_reset(servers, application, topology=topology, checkpoint=checkpoint)
    if f"{application}-commits" in plan.topics:
        _fence(servers, application)
    admin = Admin(servers)
    admin.delete_topics(*plan.topics)
    if plan.group:
        _ignoring(
            _UNKNOWN_GROUP, lambda: admin.client.delete_consumer_groups([application])[application].result(_CALL_S)
        )
    if plan.checkpoint is not None:
        shutil.rmtree(plan.checkpoint)
    return plan


def _fence(servers: Servers, application: str) -> None:
    producer = Producer(connection(servers, transactional_id=f"{application}.sink"))
    try:
        producer.init_transactions(_CALL_S)
    except KafkaException as error:
        raise kafka_error(f'fencing "{application}"', error, servers) from error


def _has_group(admin: Admin, application: str) -> bool:
    """Whether the group has committed offsets; raises EngineError while it has members."""
    described = _ignoring(
        _UNKNOWN_GROUP, lambda: admin.client.describe_consumer_groups([application])[application].result(_CALL_S)
    )
    if described is None:
        return False
    if described.members:
        raise EngineError(
            f'group "{application}" has {len(described.members)} active members',
            hint="stop the application first",
        )
    return bool(described.state.name != "DEAD")


def _ignoring(codes: set[int], call: Callable[[], Any]) -> Any:
    try:
        return call()
    except KafkaException as error:
        if error.args[0].code() in codes:
            return None
        raise
