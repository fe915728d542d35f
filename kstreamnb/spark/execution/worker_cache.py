"""Tasks that a Python worker keeps between micro-batches, with their stores.

Spark's workers outlive a batch, but only globals of an importable module survive in them. A task is removed while it
works and put back only after its state was written, so that a half-changed task is never reused. The state log decides
by its token if a kept task is current.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import chain, count, islice
from pathlib import Path
from sys import getsizeof
from typing import Any
from weakref import WeakKeyDictionary

from kstreamnb.core.time import Clock
from kstreamnb.kafka.storage.temp_dirs import temp_dir
from kstreamnb.runtime.codegen.sinks import topic_serdes
from kstreamnb.runtime.context.task_context import RowsOf
from kstreamnb.runtime.context.task_plan import plan_global_task
from kstreamnb.runtime.task.task import Changelog, Task
from kstreamnb.spark.execution.cyclic_task import AnyTask, CyclicTask
from kstreamnb.spark.execution.record_merge import Positions
from kstreamnb.spark.execution.task_batch import OutputFormat
from kstreamnb.spark.execution.task_file import CACHE_KIB, TaskFile
from kstreamnb.spark.planning.deployment import Deployment, Placed, Replica, TaskPlacement
from kstreamnb.spark.planning.key_routing import spark_hash
from kstreamnb.spark.planning.output_topics import writer_serdes
from kstreamnb.state.disk_rows import DiskRows
from kstreamnb.state.rows_by_key import RowsByKey
from kstreamnb.state.store import Store

_releases = count(1)
_published: dict[str, int] = {}
_MEASURED_CHANGE, _MEASURED_EVERY, _PUBLISHED_CHANGE = 20, 32, 1 << 20
_FOR_FILES = 0.25
"""The part of the memory limit that is left to tasks with files, once there are any."""
_SAMPLE, _ALIGNED = 32, 16
_SHARED = frozenset({bool, type(None)})


@dataclass
class Compaction:
    """A rewriting of the state log in progress: all present rows are written, then the entries before ``since`` go.

    ``stores`` are left to write, the present one last. Of that one, ``keys`` are left if its rows are in memory, else
    the rows whose key bytes are at least ``after``.
    """

    since: int
    bytes_before: int
    stores: list[str]
    keys: list[Any] | None = None
    after: bytes = b""


@dataclass
class CachedTask:
    """A task in a worker with its position in the state log; ``released`` numbers its last use.

    ``row_bytes`` is the mean size of a row in the log. ``changed`` counts, by store, the rows that the last batch wrote
    or deleted, and those that it deleted. ``file`` holds the rows of some stores, ``memory`` estimates the bytes of
    the ``measured`` rows that are in memory, ``sizes`` the bytes of each store, and ``moves``: all of them go to a
    file with the next batch.
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
    file: TaskFile | None = None
    memory: int = 0
    measured: int = -1
    sizes: dict[str, int] = field(default_factory=dict)
    moves: bool = False

    def close(self) -> None:
        """Close the file, if there is one; the task cannot be used any more."""
        if self.file is not None:
            self.file.close()


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
    tables: dict[int, Task] = field(default_factory=dict)


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


def release(deployment: Deployment, placed: Placed, cached: CachedTask) -> None:
    """Put a task back.

    Tasks that are in memory stay there. If they take more than their part of the limit with this one, it moves to a
    file with its next batch; and if all tasks exceed the limit, the least recently used of those with files are closed.
    """
    state = worker_state(deployment)
    if isinstance(placed, Replica):
        state.replicas[placed.number] = cached
        return
    state.tasks[placed.number] = cached
    cached.released = next(_releases)
    if not placed.stateful:
        return
    _measure(cached)
    _publish(_used())
    room = memory_left(deployment)
    if cached.file is None:
        cached.moves = room + _in_files() < deployment.options.memory_limit * _FOR_FILES
        return
    cached.file.unpin()
    caches = [kept.tasks for kept in _states.values()]
    backed = [(tasks, number) for tasks in caches for number, each in tasks.items() if each.file is not None]
    for tasks, oldest in sorted(backed, key=lambda entry: entry[0][entry[1]].released):
        if room < 0:
            room += tasks[oldest].memory
            tasks.pop(oldest).close()


def _measure(cached: CachedTask) -> None:
    """Estimate a task's memory, unless about as many rows were measured lately."""
    rows = sum(map(rows_in_memory, cached.task.stores.values()))
    if abs(rows - cached.measured) * _MEASURED_CHANGE > cached.measured or cached.released % _MEASURED_EVERY == 0:
        cached.sizes, cached.measured = {name: memory_bytes(store) for name, store in cached.task.stores.items()}, rows
        cached.memory = sum(cached.sizes.values())
        if cached.file is not None:
            cached.memory += CACHE_KIB << 10
            for name, size in cached.file.table_bytes().items():
                cached.sizes[name] += size


def memory_left(deployment: Deployment) -> int:
    """Return how many bytes of state still fit into this executor's memory; negative beyond the limit."""
    return deployment.options.memory_limit - _used() - _used_by_others()


def _used() -> int:
    """Return the memory of this worker's tasks, without those that move to files."""
    return sum(each.memory for kept in _states.values() for each in kept.tasks.values() if not each.moves)


def _in_files() -> int:
    """Return the memory of this worker's tasks that can be closed."""
    return sum(each.memory for kept in _states.values() for each in kept.tasks.values() if each.file is not None)


def _publish(used: int) -> None:
    """Tell the other workers of the executor what this one uses, if that has changed much."""
    name = f"{os.getpid()}.bytes"
    if abs(_published.get(name, -_PUBLISHED_CHANGE) - used) >= _PUBLISHED_CHANGE:
        local_folder().mkdir(parents=True, exist_ok=True)
        (local_folder() / name).write_text(str(used), encoding="utf-8")
        _published[name] = used


def _used_by_others() -> int:
    folder, own = local_folder(), f"{os.getpid()}.bytes"
    names = os.listdir(folder) if folder.exists() else []
    return sum(_bytes_in(folder / name) for name in names if name.endswith(".bytes") and name != own)


def _bytes_in(path: Path) -> int:
    """Return the bytes of another worker; 0 if it has ended, whose file is removed."""
    try:
        os.kill(int(path.stem), 0)
        return int(path.read_text(encoding="utf-8") or 0)
    except (ProcessLookupError, FileNotFoundError):  # the second: another worker has just removed it
        path.unlink(missing_ok=True)
    return 0


def local_folder() -> Path:
    """Return the folder for files of this executor; Spark removes it with the executor."""
    return _folder_of(os.getpid(), os.environ.get("SPARK_LOCAL_DIRS"))


@cache
def _folder_of(_: int, given: str | None) -> Path:
    return Path(given.split(",")[0], "kstreamnb") if given else temp_dir("state")


def replica_of(deployment: Deployment, placed: TaskPlacement) -> Task | None:
    """Return the global tables for a task: the replica of its Spark partition, which ran before; None if it failed."""
    wanted = placed.application, placed.level, spark_hash(placed.routing_key) % deployment.spark_partitions
    replicas = {(each.application, each.level, each.partition): each.number for each in deployment.replicas}
    number, state = replicas[wanted], worker_state(deployment)
    if number in state.failed:
        return None
    task = state.replicas[number].task
    assert isinstance(task, Task)
    return task


def output_format(deployment: Deployment, placed: TaskPlacement) -> OutputFormat:
    """Return how a task's output is packed."""
    formats = worker_state(deployment).formats
    key = placed.application, placed.plan.subtopologies[0]
    if key not in formats:
        application = deployment.applications[placed.application]
        own = application.internal_topics
        serdes = {topic: both for plan in placed.plans for topic, both in topic_serdes(plan, plan.nodes).items()}
        odd = {each for each, both in serdes.items() if each not in own and writer_serdes(application, each) != both}
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
    rows_of: RowsOf | None = None,
) -> CachedTask:
    """Create a task without state.

    Args:
        deployment: the deployment.
        placed: the task's placement.
        global_state: the keeper of the global tables that it reads.
        now_ms: the wall clock from which its punctuators count, in ms.
        track: note changes, so that deltas can be taken; by default if the task is stateful.
        rows_of: the factories of stores whose rows are in a file.
    """
    clock = Clock(now_ms)
    track = placed.stateful if track is None else track
    changelog: Changelog = "records" if track and deployment.options.changelogs else "off"
    commits = deployment.options.commit_every_record
    shared = dict[str, Any](changelog=changelog, commit_every_record=commits, rows_of=rows_of, in_query=True)
    if not placed.members:
        return CachedTask(Task(placed.plan, clock, global_state, track=track, **shared), clock)
    application = deployment.applications[placed.application]
    read = {topic for plan in placed.members for topic in application.reads[plan.subtopologies[0]]}
    inner, hidden = application.inner & read, application.internal_topics & read
    return CachedTask(CyclicTask(placed.members, clock, global_state, inner, hidden, track=track, **shared), clock)


def new_global_task(deployment: Deployment, application: int, clock: Clock, *, track: bool = True) -> Task:
    """Create the keeper of an application's global stores, without rows; ``track`` notes changes."""
    chosen = deployment.applications[application]
    plan = plan_global_task(chosen.topology, chosen.config, chosen.partitions)
    assert plan is not None  # a placement uses them
    # Kafka's test driver always continues after an unreadable record; a deployment asks the configured handler.
    config = replace(plan.config, deserialization_handler=chosen.config.deserialization_handler)
    return Task(replace(plan, config=config), clock, track=track)


def empty_task(deployment: Deployment, placed: Placed) -> AnyTask:
    """Create a task whose stores take a restored state; it never runs."""
    if isinstance(placed, Replica):
        return new_global_task(deployment, placed.application, Clock())
    tables = new_global_task(deployment, placed.application, Clock()) if placed.uses_global else None
    return new_task(deployment, placed, tables, track=False).task


def forget() -> None:
    """Drop everything that is kept, as the end of the process would."""
    _states.clear()


def size_of(value: Any) -> int:
    """Return the bytes of an object and of everything in it, as the allocator of Python rounds them.

    Example:
        >>> size_of(None), size_of(5), size_of(("a" * 100, 1_000_000)) > size_of(("a", 1_000_000))
        (0, 0, True)
    """
    kind = type(value)
    if kind in _SHARED or (kind is int and -6 < value < 257):
        return 0  # one object for all
    size = -(-getsizeof(value) // _ALIGNED) * _ALIGNED
    if isinstance(value, (tuple, list, set, frozenset)):
        size += sum(map(size_of, value))
    elif isinstance(value, dict):
        size += sum(size_of(part) for pair in value.items() for part in pair)
    attributes = getattr(value, "__dict__", None)
    return size + size_of(attributes) if attributes else size


def rows_in_memory(store: Store) -> int:
    """Return the number of a store's rows that are in memory."""
    return len(store.raw) if isinstance(store.raw, RowsByKey) else sum(map(len, _held(store)))


def memory_bytes(store: Store) -> int:
    """Return an estimate of the bytes that a store takes in memory; its own cost does not depend on their number."""
    if isinstance(store.raw, RowsByKey):
        return _lists_bytes(store.raw)
    return sum(map(_rows_bytes, _held(store))) + store.index_bytes


def _held(store: Store) -> tuple[dict[Any, Any], ...]:
    """Return what holds rows in memory; nothing for a user's own store."""
    raw = store.raw
    return raw.in_memory() if isinstance(raw, DiskRows) else (raw,) if type(raw) is dict else ()


def _lists_bytes(rows: RowsByKey) -> int:
    lists = rows.entries
    sample = {key: lists[key] for key in chain(islice(lists, _SAMPLE), islice(reversed(lists), _SAMPLE))}
    by_key = sum(size_of(key) + getsizeof(entries) for key, entries in sample.items()) * len(lists)
    content = sum(size_of(entries[0]) for entries in sample.values()) * len(rows)
    return getsizeof(lists) + (by_key + content) // max(1, len(sample))


def _rows_bytes(rows: dict[Any, Any]) -> int:
    sample = [*islice(rows.items(), _SAMPLE), *islice(reversed(rows.items()), _SAMPLE)]
    content = sum(map(size_of, chain.from_iterable(sample)))
    return getsizeof(rows) + (content * len(rows) // len(sample) if sample else 0)
