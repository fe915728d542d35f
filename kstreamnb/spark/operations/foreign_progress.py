"""Refuses to deploy over the state of an application that runs, or has run, elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kstreamnb.errors import CheckpointError
from kstreamnb.kafka.batch_offsets import Offsets
from kstreamnb.kafka.offset_metadata import OffsetMetadata, decode_metadata
from kstreamnb.kafka.output_batch import commits_topic
from kstreamnb.kafka.storage.checkpoint_files import CheckpointFiles
from kstreamnb.spark.contracts import from_json
from kstreamnb.spark.io.changelog_topics import changelog_topics
from kstreamnb.spark.planning.deployment import Deployment
from kstreamnb.spark.state.checkpoint_reader import last_begun, offsets_entry

if TYPE_CHECKING:  # Kafka's client is loaded by connections alone
    from kstreamnb.kafka.admin import Admin

_ADOPT = "continue that application with kstreamnb.adopt(topology, …, checkpoint=a new folder)"


def refuse_foreign_progress(
    admin: Admin, deployment: Deployment, checkpoint: CheckpointFiles, adopted: Offsets | None, reset: Offsets
) -> None:
    """Raise CheckpointError if Kafka has offsets or changelogs of the application that no deployment wrote.

    The sink refuses a marker of another deployment. Otherwise raise ApplicationStateError if its group has members.

    Args:
        admin: the cluster.
        deployment: what is about to start.
        checkpoint: its files.
        adopted: offsets at which an adopted application continues.
        reset: offsets that a reset has set.
    """
    from kstreamnb.kafka.application_reset import committed_positions, refuse_members

    application = deployment.application
    committed = committed_positions(admin, application.id, application.external)
    begun = last_begun(checkpoint)
    own = from_json(offsets_entry(checkpoint, begun).get("offsets", {})) if begun >= 0 else adopted
    if own is not None:
        _refuse_later(admin, application.id, own)
        refuse_members(admin, application.id, application.external)
        return
    if admin.topics([commits_topic(application.id)]):
        return
    foreign = sorted(committed.keys() - reset.keys())
    if foreign:
        offsets = ", ".join(f"{part}: {offset}" for part, offset in sorted(committed[foreign[0]].items()))
        raise _elsewhere(application.id, "run", f'its group has committed offsets of topic "{foreign[0]}" ({offsets})')
    logs = admin.topics(topic.name for topic in changelog_topics(deployment))
    first, last = admin.offsets(logs, "earliest"), admin.offsets(logs, "latest")
    filled = [topic for topic in logs if first[topic] != last[topic]]
    if filled:
        raise _elsewhere(application.id, "state", f'topic "{filled[0]}" has records')
    refuse_members(admin, application.id, application.external)


def _elsewhere(application: str, what: str, trace: str) -> CheckpointError:
    fact = f'application "{application}" has {what} elsewhere'
    detail = f"{trace}, and the checkpoint is new"
    return CheckpointError(fact, detail=detail, hint=f"{_ADOPT}; or reset it, or deploy with another application id")


def _refuse_later(admin: Admin, application: str, own: Offsets) -> None:
    """Refuse a checkpoint that Kafka Streams has passed, which commits stream times with its offsets.

    Other offsets beyond the checkpoint belong to a newer copy of it; the marker of its last batch decides about those.
    """
    from kstreamnb.kafka.application_reset import group_offsets, metadata_of

    for each in group_offsets(admin, application, own):
        reached = own.get(each.topic, {}).get(each.partition)
        if reached is not None and each.offset > reached and decode_metadata(metadata_of(each)) != OffsetMetadata():
            place = f'of topic "{each.topic}", partition {each.partition}'
            detail = f"its group is at offset {each.offset} {place}; the checkpoint is at offset {reached}"
            raise CheckpointError(f'application "{application}" has continued elsewhere', detail=detail, hint=_ADOPT)
