"""What a Python worker keeps between micro-batches: deployments it has read, and tasks with their stores.

Spark's workers live longer than a batch, but only globals of an importable module survive in them; hence this module.
A task is taken out while it works and put back only after its state was written, so that a half-changed one is never
found. Whether one that is found may be used, the state log decides by its token.
"""

from __future__ import annotations

import pickle
import zlib
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any

import cloudpickle  # type: ignore[import-untyped]

from kstreamnb.core.time import Clock
from kstreamnb.errors import SparkError
from kstreamnb.runtime.codegen.sinks import topic_serdes
from kstreamnb.runtime.task.task import GlobalTask, Task
from kstreamnb.spark.execution.cyclic_task import CyclicTask
from kstreamnb.spark.execution.record_merge import Positions
from kstreamnb.spark.execution.task_batch import Outlets
from kstreamnb.spark.planning.key_routing import spark_hash
from kstreamnb.spark.planning.output_topics import writer_serdes
from kstreamnb.spark.planning.placement import Deployment, PlacedTask, Replica

__all__ = [
    "DeploymentBlob",
    "Compaction",
    "CachedTask",
    "check_in",
    "check_out",
    "empty_task",
    "forget",
    "new_global",
    "new_task",
    "note_failure",
    "outlets_of",
    "placed_at",
    "read",
    "replica",
]

_deployments: OrderedDict[str, Deployment] = OrderedDict()
_tasks: OrderedDict[tuple[str, int], CachedTask] = OrderedDict()
_replicas: dict[tuple[str, int], CachedTask] = {}
_failed: set[tuple[str, int]] = set()
_outlets: dict[tuple[str, int, int], Outlets] = {}
_placed: dict[tuple[str, int], dict[int, PlacedTask | Replica]] = {}


@dataclass(frozen=True)
class DeploymentBlob:
    """A deployment as bytes, under a name by which each worker reads it only once; ``kafka``: output leaves as bytes.

    ``memory_limit`` is the number of state bytes that one worker may keep; what is used least goes first.
    ``commit_every_record``: flush caches after each record and not after each batch. ``live``: changes of state come
    out with each batch, for views of the stores. ``verify``: compare what is remembered with its log before each batch.
    """

    name: str
    data: bytes = field(repr=False)
    kafka: bool
    memory_limit: int = 1 << 30
    commit_every_record: bool = False
    live: bool = False
    verify: bool = False

    @classmethod
    def of(cls, name: str, deployment: Deployment, **settings: Any) -> DeploymentBlob:
        """Pickle a deployment with the user's functions in it; other functions make another name."""
        data = cloudpickle.dumps(deployment, 5)
        return cls(f"{name}-{zlib.crc32(data):08x}", zlib.compress(data), **settings)


@dataclass
class Compaction:
    """A rewriting of the state log that is under way: what is left to write, and what may go when it is done."""

    since: int
    bytes_before: int
    keys: list[Any]
    written: int = 0


@dataclass
class CachedTask:
    """A task in a worker with the place in its state log that it stands at."""

    task: Any
    clock: Clock
    positions: Positions = field(default_factory=dict)
    seq: int = 0
    token: str = ""
    state_bytes: int = 0
    key_bytes: int = 128
    base_bytes: int = 0
    compaction: Compaction | None = None


def read(bundle: DeploymentBlob) -> Deployment:
    """The deployment of a bundle."""
    found = _deployments.get(bundle.name)
    if found is None:
        found = _deployments[bundle.name] = pickle.loads(zlib.decompress(bundle.data))
        while len(_deployments) > 4:
            old, _ = _deployments.popitem(last=False)
            for key in [key for key in _outlets if key[0] == old]:
                del _outlets[key]
            for level in [key for key in _placed if key[0] == old]:
                del _placed[level]
            for task in [key for key in _tasks if key[0] == old]:
                del _tasks[task]
    return found


def placed_at(bundle: DeploymentBlob, level: int) -> dict[int, PlacedTask | Replica]:
    """Tasks and replicas of one level by group value."""
    key = (bundle.name, level)
    if key not in _placed:
        _placed[key] = read(bundle).at_group(level)
    return _placed[key]


def outlets_of(bundle: DeploymentBlob, placed: PlacedTask) -> Outlets:
    """How a task's output is packed."""
    key = (bundle.name, placed.application, placed.plan.subtopologies[0])
    if key not in _outlets:
        application = read(bundle).applications[placed.application]
        own = {f"{application.id}-{name}" for name in application.topology.internal_topics}
        serdes = {topic: both for plan in placed.plans for topic, both in topic_serdes(plan, plan.nodes).items()}
        odd = {
            topic for topic, both in serdes.items() if topic not in own and writer_serdes(application, topic) != both
        }
        _outlets[key] = Outlets(serdes, application.inner, frozenset((application.inner - own) | odd), bundle.kafka)
    return _outlets[key]


def new_task(
    bundle: DeploymentBlob, placed: PlacedTask, global_state: Any = None, *, now_ms: int = 0, track: bool | None = None
) -> CachedTask:
    """A task that has seen nothing; punctuators of the wall clock count from ``now_ms``."""
    clock = Clock(now_ms)
    options: dict[str, Any] = {
        "track": placed.stateful if track is None else track,
        "commit_every_record": bundle.commit_every_record,
    }
    if placed.members:
        application = read(bundle).applications[placed.application]
        hidden = frozenset(f"{application.id}-{name}" for name in application.topology.internal_topics)
        going_round = frozenset(t for plan in placed.members for t in application.reads[plan.subtopologies[0]]) & hidden
        return CachedTask(CyclicTask(placed.members, clock, global_state, going_round, **options), clock)
    return CachedTask(Task(placed.plan, clock, global_state, **options), clock)


def empty_task(bundle: DeploymentBlob, placed: PlacedTask) -> Any:
    """A task to look at restored stores with: it never runs."""
    tables = new_global(read(bundle), placed.application).task if placed.uses_global else None
    return new_task(bundle, placed, tables, track=False).task


def new_global(deployment: Deployment, application: int) -> CachedTask:
    """The keeper of an application's global stores, empty."""
    clock, plan = Clock(), deployment.global_plan(application)
    if plan is None:
        raise SparkError("there are no global stores")
    return CachedTask(GlobalTask(plan, clock, track=True), clock)


def replica(bundle: DeploymentBlob, placed: PlacedTask) -> Any:
    """The global tables for a task: the replica of its Spark partition, which ran before it; None where that failed."""
    deployment = read(bundle)
    partition = spark_hash(placed.group) % deployment.spark_partitions
    for found in deployment.replicas:
        if (found.application, found.level, found.partition) == (placed.application, placed.level, partition):
            key = (bundle.name, found.number)
            return None if key in _failed else _replicas[key].task
    raise SparkError("a task's global tables have no replica")


def check_out(key: tuple[str, int]) -> CachedTask | None:
    """Take a task, or a replica of global tables, out of the worker's memory."""
    _failed.discard(key)
    return _tasks.pop(key, None) or _replicas.pop(key, None)


def check_in(key: tuple[str, int], held: CachedTask, memory_limit: int) -> None:
    """Put a task back; the ones used least go while all together exceed the limit."""
    if isinstance(held.task, GlobalTask):
        _replicas[key] = held
        return
    _tasks[key] = held
    total = sum(other.state_bytes for other in _tasks.values())
    while total > memory_limit and len(_tasks) > 1:
        _, gone = _tasks.popitem(last=False)
        total -= gone.state_bytes


def note_failure(key: tuple[str, int]) -> None:
    """Note that a replica of global tables failed: what would use it in this batch need not begin."""
    _failed.add(key)


def forget() -> None:
    """Give up everything that is kept, as the end of the process would."""
    for kept in (_deployments, _tasks, _replicas, _failed, _outlets, _placed):
        kept.clear()
