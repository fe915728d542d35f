"""Keep the attributes of users' processors as part of a task's state.

Kafka keeps a processor's own attributes only while its task stays on one instance. On Spark a task may move to another
worker with every batch, so attributes that can be pickled are kept in its state log. They are written completely with
each batch; use a store for data that grows. They are the one part of a checkpoint that is unpickled, and only by a
query.
"""

from __future__ import annotations

import io
import pickle
from contextlib import suppress

import cloudpickle

from kstreamnb.runtime.codegen.node_context import NodeContext
from kstreamnb.runtime.context.punctuation import Schedule
from kstreamnb.runtime.context.task_context import TaskContext
from kstreamnb.spark.execution.cyclic_task import AnyTask, CyclicTask
from kstreamnb.spark.execution.state_codec import Attributes
from kstreamnb.state.store import Store


def attributes_of(task: AnyTask) -> Attributes:
    """Return the attributes of a task's processors, without those that lead to the task or cannot be pickled."""
    attributes: Attributes = {}
    for node, owner in _owners(task).items():
        packed = {name: _packed(value) for name, value in getattr(owner, "__dict__", {}).items()}
        kept = {name: data for name, data in packed.items() if data is not None}
        if kept:
            attributes[node] = kept
    return attributes


def give_attributes(task: AnyTask, attributes: Attributes) -> None:
    """Set what `attributes_of` returned; attributes of nodes that the task does not have stay packed."""
    owners = _owners(task) if attributes else {}
    for node in attributes.keys() & owners.keys():
        for name, data in attributes[node].items():
            setattr(owners[node], name, pickle.loads(data))


def _owners(task: AnyTask) -> dict[tuple[str, str], object]:
    members = task.members.items() if isinstance(task, CyclicTask) else [("", task)]
    return {(id_, node): owner for id_, member in members for node, owner in member.context.processors.items()}


def _packed(value: object) -> bytes | None:
    for kind in (_Plain, _ByValue):  # the first takes half the time for objects of modules
        out = io.BytesIO()
        with suppress(Exception):  # whatever pickling a user's object raises: the object is not kept
            kind(out, 5).dump(value)
            return out.getvalue()
    return None


class _Guarded:
    def persistent_id(self, value: object) -> None:
        """Refuse parts of the task; everything else is pickled as it is."""
        if isinstance(value, (TaskContext, Store, Schedule, NodeContext)):
            raise pickle.PicklingError("an attribute leads to the task")


class _Plain(_Guarded, pickle.Pickler):
    """Pickles classes and functions by their names."""


class _ByValue(_Guarded, cloudpickle.CloudPickler):
    """Also pickles classes that were defined in a notebook."""
