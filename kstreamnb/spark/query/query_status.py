"""The status of a query, and its description with positions, tasks and their stores."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from kstreamnb.kafka.batch_offsets import Offsets
from kstreamnb.spark.planning.deployment import Deployment, TaskPlacement
from kstreamnb.spark.planning.key_routing import spark_hash


@dataclass(frozen=True)
class QueryStatus:
    """The state of a query at one moment.

    Attributes:
        state: "starting" until the first batch of a start is finished or there is none to do, then "running"; at the
            end "stopping", "stopped" or "failed".
        batch: the number of the last finished batch, -1 before the first.
        lag: records that wait in the input topics; -1 if no broker answers, and while the first batch runs.
        positions: offsets of the next records, by topic and partition.
        clock_ms: the wall clock of the last batch, in ms.
        durations_ms: the durations of the parts of the last batch, as Spark measures them, in ms.
        error: the text of the error that ended the query.
        slow: a batch that runs for longer than ``deploy(…, slow_batch=…)``, with the task, node and record it is at.
        stuck: the slow batch has not come to another record for as long.
    """

    state: str
    batch: int
    lag: int
    positions: Offsets = field(repr=False)
    clock_ms: int = 0
    durations_ms: dict[str, int] = field(default_factory=dict)
    error: str | None = None
    slow: str | None = None
    stuck: bool = False


def describe_query(deployment: Deployment, state: str, batch: int, positions: Offsets, ran: Collection[str]) -> str:
    """Return the text of a `Query`; ``ran`` are the names of the tasks that have run since it was made."""
    after = f"after batch {batch}" if batch >= 0 else "before its first batch"
    lines = [f'application "{deployment.applications[0].id}": {state}, {after}']
    for topic, parts in positions.items():
        lines.append(f"  topic {topic}: " + ", ".join(f"{part} at {offset}" for part, offset in sorted(parts.items())))
    return "\n".join([*lines, *(_task(deployment, task, task.name in ran) for task in deployment.tasks)])


def _task(deployment: Deployment, task: TaskPlacement, has_run: bool) -> str:
    application = deployment.applications[task.application]
    owners = {group.id: group.stores for group in application.topology.subtopologies()}
    ids = [(plan.subtopologies[0], plan.partition) for plan in task.plans]
    reads = sorted({f"{topic}-{partition}" for id_, partition in ids for topic in application.reads[id_]})
    stores = sorted({store for id_, _ in ids for store in owners[id_]})
    words = [
        f"partition {spark_hash(task.routing_key) % deployment.spark_partitions} of Spark",
        f"reads {', '.join(reads)}",
    ]
    words += [f"keeps {', '.join(stores)}"] if stores else []
    words += [] if has_run else ["has not run yet"]
    return f"  task {task.name.partition('/')[2]}: {'; '.join(words)}"
