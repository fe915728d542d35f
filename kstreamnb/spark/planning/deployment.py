"""The plan of a query as one frozen value: applications, levels, task placements and routes. Imports no pyspark.

A level holds the sub-topologies whose longest path from an input topic has the same length. Each level is one operator
of the query; its tasks are the groups. Rows for a later level pass through.

A `Deployment` is handed to workers inside the functions that Spark sends them. It is pickled once, and each process
unpickles it once: later copies with the same content are the same object.
"""

from __future__ import annotations

import io
import pickle
import zlib
from collections import ChainMap, OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from types import CodeType
from typing import ClassVar, TypeAlias

import cloudpickle

from kstreamnb.errors import SparkError
from kstreamnb.kafka.registry import RegistrySerde
from kstreamnb.runtime.context.config import Config
from kstreamnb.runtime.context.task_plan import TaskPlan
from kstreamnb.source_location import DYNAMIC_CODE
from kstreamnb.spark.planning.split_joins import split_joins
from kstreamnb.topology.topology import Topology

COPY = "/global at level "
"""Part of the name of a replica of global tables; names of tasks do not contain it."""

FIRST_SLOT = -10
"""The target of rows with output for slot 0; further slots follow downwards."""

_MOST_LOADED = 4
_loaded: OrderedDict[str, Deployment] = OrderedDict()


@dataclass(frozen=True, eq=False)
class ApplicationPlan:
    """A topology with its settings and the partitions of every topic, under the names they have in Kafka.

    ``running`` is the topology that tasks run: foreign-key joins may be split in it. ``inner`` are topics whose records
    pass from task to task inside the query: repartition topics, and with ``direct`` also the user's topics that are
    written and read here. ``looped`` are the user's topics that are written here and
    read back through Kafka. ``external`` are the input topics, ``global_topics`` those of global stores; ``levels``
    and ``reads`` give the level and the topics of each sub-topology; ``cycles`` are ids of sub-topologies that feed
    each other. Output topics that ``partitions`` does not name have ``default_partitions``.
    """

    topology: Topology
    running: Topology
    config: Config
    partitions: Mapping[str, int]
    inner: frozenset[str]
    looped: tuple[str, ...]
    external: tuple[str, ...]
    global_topics: tuple[str, ...]
    levels: Mapping[int, int]
    cycles: tuple[frozenset[int], ...]
    reads: Mapping[int, tuple[str, ...]]
    default_partitions: int = 1

    @property
    def plan(self) -> TaskPlan:
        """A plan of all sub-topologies together, which knows the sources and serdes of topics; no task runs it."""
        ids = tuple(group.id for group in self.topology.subtopologies())
        return TaskPlan(self.topology, ids, config=self.config, partitions=self.partitions)

    @property
    def split(self) -> list[str]:
        """The nodes by which split foreign-key joins are known: those that resolve their answers."""
        return [name for name, node in self.topology.nodes.items() if self.running.nodes[name] != node]

    @property
    def whole(self) -> list[str]:
        """The nodes of foreign-key joins that are not split, although results would be the same."""
        return [name for name in replace(self, running=split_joins(self.topology)).split if name not in self.split]

    @cached_property
    def id(self) -> str:
        """The application's id."""
        return self.plan.application_id

    @property
    def inputs(self) -> tuple[str, ...]:
        """All topics that the query reads: input topics, then those of global stores."""
        return (*self.external, *self.global_topics)

    @property
    def internal_topics(self) -> frozenset[str]:
        """The application's repartition topics, under their names in Kafka."""
        return frozenset(f"{self.id}-{name}" for name in self.running.internal_topics)

    def cycle_of(self, subtopology: int) -> frozenset[int]:
        """Return the ids of the cycle that a sub-topology belongs to; empty without one."""
        return next((cycle for cycle in self.cycles if subtopology in cycle), frozenset())


@dataclass(frozen=True, eq=False)
class TaskPlacement:
    """One task and its level; ``routing_key`` is the group value that brings its rows to its Spark partition.

    If sub-topologies feed each other, all tasks of that cycle are ``members`` of one placement.
    """

    number: int
    application: int
    plan: TaskPlan
    level: int
    routing_key: int
    stateful: bool
    uses_global: bool
    punctuates: bool
    members: tuple[TaskPlan, ...] = ()

    @property
    def name(self) -> str:
        """The task's id, unique among all applications of the query; a cycle is named by its sub-topologies."""
        if not self.members:
            return f"{self.application}/{self.plan.task_id}"
        ids = sorted({plan.subtopologies[0] for plan in self.members})
        # Checkpoints know tasks by these names.
        return f"{self.application}/circle {'+'.join(map(str, ids))}"

    @property
    def plans(self) -> tuple[TaskPlan, ...]:
        """The task's plan, or those of all members of a cycle."""
        return self.members or (self.plan,)


@dataclass(frozen=True)
class Replica:
    """A copy of an application's global tables: one for each level that reads them and each Spark partition."""

    number: int
    application: int
    level: int
    routing_key: int
    partition: int

    @property
    def name(self) -> str:
        """Unique among all replicas and tasks of the query."""
        return f"{self.application}{COPY}{self.level}, {self.partition}"


Placed: TypeAlias = TaskPlacement | Replica


@dataclass(frozen=True)
class Level:
    """One operator of the query."""

    number: int
    stateful: bool
    uses_global: bool


@dataclass(frozen=True)
class WorkerOptions:
    """Settings that workers need: ``kafka`` makes output leave as Kafka's bytes.

    ``memory_limit`` is how many bytes of memory the state of tasks may take in all workers of an executor.
    ``commit_every_record`` flushes caches after each record instead of each batch. ``verify`` compares the remembered
    state with its log before each batch. ``changelogs``: tasks give the records of their changelog topics, too.
    ``positions`` is the folder where workers note what they are at.
    ``seed`` is the folder with the state that new tasks begin with, empty for none.
    ``slots``: executors publish the output in that many slots; 0 if the driver does.
    ``live``: the driver gets the changes of stores with each batch.
    """

    kafka: bool = False
    memory_limit: int = 1 << 30
    commit_every_record: bool = False
    verify: bool = False
    changelogs: bool = False
    positions: str | None = None
    seed: str = ""
    slots: int = 0
    live: bool = True


@dataclass(frozen=True, eq=False)
class Deployment:
    """Everything that workers and the driver have to agree on.

    Rows are addressed to tasks by number; replicas of global tables are numbered after the tasks. A partition is given
    as (application, topic, partition). ``pass_through_keys`` are group values, one per Spark partition, of rows that
    only pass a level. Replicas have the least keys of their partition, so that Spark runs them first.
    """

    name: str
    applications: tuple[ApplicationPlan, ...]
    tasks: tuple[TaskPlacement, ...]
    spark_partitions: int
    replicas: tuple[Replica, ...]
    pass_through_keys: tuple[int, ...]
    options: WorkerOptions = WorkerOptions()

    def __reduce__(self) -> tuple[object, ...]:
        return _load, (self.key, self.packed)

    @property
    def stateful(self) -> bool:
        """True if any task has state."""
        return any(task.stateful for task in self.tasks)

    def load(self) -> Deployment:
        """Return this deployment, as `PackedDeployment.load` does."""
        return self

    def as_packed(self) -> PackedDeployment:
        """Return this deployment as bytes, with what is needed before it is unpickled."""
        return PackedDeployment(self.key, self.packed, self.readers, self.options)

    @property
    def application(self) -> ApplicationPlan:
        """The first application, the only one of a query that `deploy` starts."""
        return self.applications[0]

    @cached_property
    def packed(self) -> bytes:
        """The pickled content, with the user's functions in it."""
        content = tuple(getattr(self, each.name) for each in fields(self))
        file = io.BytesIO()
        DeploymentPickler(file, 5).dump(content)
        return zlib.compress(file.getvalue())

    @cached_property
    def key(self) -> str:
        """The name with a checksum of the content: other functions make another key."""
        return f"{self.name}-{zlib.crc32(self.packed):08x}"

    @cached_property
    def levels(self) -> tuple[Level, ...]:
        """The levels in their order."""
        stateful = {task.level for task in self.tasks if task.stateful}
        uses_global = {task.level for task in self.tasks if task.uses_global}
        numbers = sorted({task.level for task in self.tasks})
        return tuple(Level(number, number in stateful, number in uses_global) for number in numbers)

    @cached_property
    def input_partitions(self) -> tuple[tuple[int, str, int], ...]:
        """Input partitions by rank."""
        numbered = enumerate(self.applications)
        inputs = ((number, each.partitions, topic) for number, each in numbered for topic in sorted({*each.inputs}))
        return tuple((number, topic, part) for number, counts, topic in inputs for part in range(counts.get(topic, 1)))

    @cached_property
    def input_ranks(self) -> dict[tuple[int, str, int], int]:
        """The rank of each input partition."""
        return {partition: rank for rank, partition in enumerate(self.input_partitions)}

    @cached_property
    def readers(self) -> dict[tuple[int, str, int], int]:
        """The number of the task that reads each partition."""
        return {
            (task.application, topic, plan.partition): task.number
            for task in self.tasks
            for plan in task.plans
            for topic in self.applications[task.application].reads[plan.subtopologies[0]]
            if plan.partition < plan.count(topic)
        }

    @cached_property
    def _all(self) -> tuple[Placed, ...]:
        return (*self.tasks, *self.replicas)

    @cached_property
    def placements(self) -> dict[int, dict[int, Placed]]:
        """Tasks and replicas by level and routing key."""
        by_level: dict[int, dict[int, Placed]] = {level.number: {} for level in self.levels}
        for placed in self._all:
            by_level[placed.level][placed.routing_key] = placed
        return by_level

    def producer(self, placed: Placed) -> int:
        """Return the number under which a task's rows name their producer; input partitions come first."""
        return len(self.input_ranks) + placed.number

    def routing_key_at(self, level: int, target: int, source: int = 0) -> int:
        """Return a row's group value at a level: the key of its target, or a pass-through key by slot or producer."""
        if target >= 0 and self._all[target].level == level:
            return self._all[target].routing_key
        lane = target if target >= 0 else FIRST_SLOT - target if target <= FIRST_SLOT else source
        return self.pass_through_keys[lane % self.spark_partitions]

    def replica_targets(self, application: int) -> tuple[int, ...]:
        """Return the addresses of an application's replicas of its global tables."""
        return tuple(replica.number for replica in self.replicas if replica.application == application)

    def routing_keys(self) -> dict[str, int]:
        """Return routing keys by the names of tasks and replicas, as a checkpoint stores them."""
        return {placed.name: placed.routing_key for placed in self._all}


@dataclass(frozen=True)
class PackedDeployment:
    """A deployment that stays pickled until it is used: a process without the user's modules can hold it.

    Attributes:
        key: of the deployment.
        packed: its content.
        readers: the task that reads each input partition, as in `Deployment`.
        options: settings of workers.
    """

    key: str
    packed: bytes = field(repr=False)
    readers: Mapping[tuple[int, str, int], int] = field(repr=False)
    options: WorkerOptions

    def load(self) -> Deployment:
        """Return the deployment of this process; unpickle it if there is none yet."""
        return _load(self.key, self.packed)


def _reduce_code(code: CodeType) -> tuple[object, tuple[object, ...]]:
    make, arguments = cloudpickle.CloudPickler.dispatch_table[CodeType](code)
    return make, tuple(code.co_filename if each == DYNAMIC_CODE else each for each in arguments)


def _reduce_registry_serde(serde: RegistrySerde) -> object:
    """Reduce a serde as pickle does; raise SparkError if workers could not read what other processes write."""
    url = str(dict(serde.settings)["url"])
    if url.startswith("mock://"):
        fact = f'serde "{serde.name}" cannot be sent to Spark\'s workers'
        detail = f'registry "{url}" keeps its schemas in one process'
        raise SparkError(fact, detail=detail, hint="pass SchemaRegistry the URL of a registry that the workers reach")
    return serde.__reduce_ex__(5)


class FunctionPickler(cloudpickle.CloudPickler):
    """Keeps the files of functions, from which errors show a line: cloudpickle 3.1.3 leaves them out."""

    dispatch_table: ClassVar = ChainMap({CodeType: _reduce_code}, cloudpickle.CloudPickler.dispatch_table)


class DeploymentPickler(FunctionPickler):
    """Refuses serdes that workers could not use, as well."""

    dispatch_table: ClassVar = ChainMap({RegistrySerde: _reduce_registry_serde}, FunctionPickler.dispatch_table)


def _load(key: str, packed: bytes) -> Deployment:
    """Return the deployment of this process with a key; unpickle it if there is none yet."""
    loaded = _loaded.get(key)
    if loaded is None:
        loaded = Deployment(*pickle.loads(zlib.decompress(packed)))
        loaded.__dict__.update(key=key, packed=packed)  # otherwise it would be pickled again only to compute its key
        _loaded[key] = loaded
        while len(_loaded) > _MOST_LOADED:
            _loaded.popitem(last=False)
    _loaded.move_to_end(key)
    return loaded
