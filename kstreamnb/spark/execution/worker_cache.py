"""Tasks that a Python worker keeps between micro-batches, with their stores.

Spark's workers outlive a batch, but only globals of an importable module survive in them. A task is removed while it
works and put back only after its state was written, so that a half-changed task is never reused. The state log decides
by its token if a kept task is current.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count
from typing import TypeAlias
from weakref import WeakKeyDictionary

from kstreamnb.core.time import Clock
from kstreamnb.errors import SparkError
from kstreamnb.runtime.codegen.sinks import topic_serdes
from kstreamnb.runtime.task.task import Changelog, GlobalTask, StateKey, Task
from kstreamnb.spark.execution.cyclic_task import CyclicTask
from kstreamnb.spark.execution.record_merge import Positions
from kstreamnb.spark.execution.task_batch import OutputFormat
from kstreamnb.spark.planning.deployment import Deployment, Replica, TaskPlacement
from kstreamnb.spark.planning.key_routing import spark_hash
from kstreamnb.spark.planning.output_topics import writer_serdes

_releases = count(1)

AnyTask: TypeAlias = Task | CyclicTask
"""A task, the keeper of global tables among them, or the tasks of a cycle."""


@dataclass
class Compaction:
    """A rewriting in progress of all entries of the state log before ``since``, the oldest first.

    ``keys`` are left of entry ``number``, which has ``size`` bytes; rows of ``written`` keys are in newer entries.
    """

    since: int
    number: int = 0
    size: int = 0
    keys: list[StateKey] = field(default_factory=list)
    written: set[StateKey] = field(default_factory=set)


@dataclass
class CachedTask:
    """A task in a worker with its position in the state log; ``released`` numbers its last use.

    ``row_bytes`` is the mean size of a row in the log. ``changed`` counts, by store, the rows that the last batch wrote
    or deleted, and those that it deleted.
    """

    task: AnyTask
    clock: Clock
    positions: Positions = field(default_factory=dict)
    seq: int = 0
    token: str = ""
    state_bytes: int = 0
    row_bytes: int = 64
    compaction: Compaction | None = None
    released: int = 0
    changed: dict[str, tuple[int, int]] = field(default_factory=dict)


@dataclass
class WorkerState:
    """The tasks that this process keeps of one deployment, by the numbers of tasks and replicas.

    ``failed`` are replicas that failed in this batch; ``formats`` are output formats by application and sub-topology;
    ``tables`` are the filled global tables of a run over static DataFrames, by application.
    """

    tasks: dict[int, CachedTask] = field(default_factory=dict)
    replicas: dict[int, CachedTask] = field(default_factory=dict)
    failed: set[int] = field(default_factory=set)
    formats: dict[tuple[int, int], OutputFormat] = field(default_factory=dict)
    tables: dict[int, GlobalTask] = field(default_factory=dict)


# Weak keys: everything that belongs to a deployment goes when the process forgets the deployment.
_states: WeakKeyDictionary[Deployment, WorkerState] = WeakKeyDictionary()


def worker_state(deployment: Deployment) -> WorkerState:
    """Return what this process keeps of a deployment."""
    state = _states.get(deployment)
    if state is None:
        state = _states[deployment] = WorkerState()
    return state


def acquire(deployment: Deployment, number: int) -> CachedTask | None:
    """Remove a task, or a replica of global tables, from the worker's memory."""
    state = worker_state(deployment)
    state.failed.discard(number)
    return state.tasks.pop(number, None) or state.replicas.pop(number, None)


def release(deployment: Deployment, number: int, cached: CachedTask) -> None:
    """Put a task back; the least recently used tasks go while all together exceed the memory limit."""
    state = worker_state(deployment)
    if isinstance(cached.task, GlobalTask):
        state.replicas[number] = cached
        return
    state.tasks[number] = cached
    cached.released = next(_releases)
    total = sum(each.state_bytes for kept in _states.values() for each in kept.tasks.values())
    while total > deployment.options.memory_limit:
        owner, oldest = min(
            ((kept.tasks, each) for kept in _states.values() for each in kept.tasks),
            key=lambda found: found[0][found[1]].released,
        )
        if owner[oldest] is cached:
            return
        total -= owner.pop(oldest).state_bytes


def replica_of(deployment: Deployment, placed: TaskPlacement) -> Task | None:
    """Return the global tables for a task: the replica of its Spark partition, which ran before; None if that failed.

    Raises:
        SparkError: no replica has run before the task.
    """
    partition = spark_hash(placed.routing_key) % deployment.spark_partitions
    state = worker_state(deployment)
    for replica in deployment.replicas:
        if (replica.application, replica.level, replica.partition) == (placed.application, placed.level, partition):
            if replica.number in state.failed:
                return None
            task = state.replicas[replica.number].task
            assert isinstance(task, GlobalTask)
            return task
    raise SparkError("a task's global tables have no replica")


def output_format(deployment: Deployment, placed: TaskPlacement) -> OutputFormat:
    """Return how a task's output is packed."""
    formats = worker_state(deployment).formats
    key = placed.application, placed.plan.subtopologies[0]
    if key not in formats:
        application = deployment.applications[placed.application]
        own = application.internal_topics
        serdes = {topic: both for plan in placed.plans for topic, both in topic_serdes(plan, plan.nodes).items()}
        odd = {
            topic for topic, both in serdes.items() if topic not in own and writer_serdes(application, topic) != both
        }
        mixed = frozenset((application.inner - own) | odd)
        formats[key] = OutputFormat(serdes, application.inner, mixed, deployment.options.kafka)
    return formats[key]


def new_task(
    deployment: Deployment,
    placed: TaskPlacement,
    global_state: Task | None = None,
    *,
    now_ms: int = 0,
    track: bool | None = None,
) -> CachedTask:
    """Create a task without state.

    Args:
        deployment: the deployment.
        placed: the task's placement.
        global_state: the keeper of the global tables that it reads.
        now_ms: the wall clock from which its punctuators count, in ms.
        track: note changes, so that deltas can be taken; by default if the task is stateful.
    """
    clock = Clock(now_ms)
    track = placed.stateful if track is None else track
    commits = deployment.options.commit_every_record
    changelog: Changelog = "records" if track and deployment.options.changelogs else "off"
    if not placed.members:
        task = Task(placed.plan, clock, global_state, track=track, changelog=changelog, commit_every_record=commits)
        return CachedTask(task, clock)
    application = deployment.applications[placed.application]
    read = {topic for plan in placed.members for topic in application.reads[plan.subtopologies[0]]}
    hidden = application.internal_topics & read
    cyclic = CyclicTask(
        placed.members, clock, global_state, hidden, track=track, changelog=changelog, commit_every_record=commits
    )
    return CachedTask(cyclic, clock)


def new_global_task(deployment: Deployment, application: int, clock: Clock) -> GlobalTask:
    """Create the keeper of an application's global stores, without rows."""
    plan = deployment.global_plan(application)
    if plan is None:
        raise SparkError(f'application "{deployment.applications[application].id}" has no global stores')
    return GlobalTask(plan, clock, track=True)


def empty_task(deployment: Deployment, placed: TaskPlacement | Replica) -> AnyTask:
    """Create a task whose stores take a restored state; it never runs."""
    if isinstance(placed, Replica):
        return new_global_task(deployment, placed.application, Clock())
    tables = new_global_task(deployment, placed.application, Clock()) if placed.uses_global else None
    return new_task(deployment, placed, tables, track=False).task


def forget() -> None:
    """Drop everything that is kept, as the end of the process would."""
    _states.clear()
