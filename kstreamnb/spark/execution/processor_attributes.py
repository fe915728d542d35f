"""The attributes of users' processors as part of what a task remembers.

Kafka keeps a processor's own attributes only as long as its task stays where it is. On Spark a task may go on in
another worker with every batch, so attributes that can be pickled are kept in its state log. They are written whole
with each batch; what grows belongs in a store.
"""

from __future__ import annotations

import io
import pickle
from typing import Any

import cloudpickle  # type: ignore[import-untyped]

from kstreamnb.runtime.codegen.node_context import NodeContext
from kstreamnb.runtime.context.punctuation import Schedule
from kstreamnb.runtime.context.task_context import TaskContext
from kstreamnb.spark.execution.cyclic_task import CyclicTask
from kstreamnb.state import Store

__all__ = ["Attributes", "attributes_of", "give_attributes"]

Attributes = dict[tuple[str, str], dict[str, bytes]]
"""By task and node: each attribute as bytes."""


def attributes_of(task: Any) -> Attributes:
    """The attributes of a task's processors; those that lead to the task, or cannot be pickled, are left out."""
    found: Attributes = {}
    for place, owner in _owners(task).items():
        packed = {name: _packed(value) for name, value in getattr(owner, "__dict__", {}).items()}
        kept = {name: data for name, data in packed.items() if data is not None}
        if kept:
            found[place] = kept
    return found


def give_attributes(task: Any, attributes: Attributes) -> None:
    """Give a task's processors back what `attributes_of` gave."""
    owners = _owners(task) if attributes else {}
    for place, content in attributes.items():
        for name, data in content.items():
            setattr(owners[place], name, pickle.loads(data))


def _owners(task: Any) -> dict[tuple[str, str], Any]:
    members = task.members.items() if isinstance(task, CyclicTask) else [("", task)]
    return {(id_, node): owner for id_, member in members for node, owner in member.scope.processors.items()}


def _packed(value: Any) -> bytes | None:
    for kind in (_Plain, _ByValue):
        out = io.BytesIO()
        try:
            kind(out, 5).dump(value)
        except _LeadsToTask:
            return None
        except Exception:  # whatever the pickling of a user's object raises: it is not kept
            continue
        return out.getvalue()
    return None


class _LeadsToTask(Exception):
    """An attribute holds something that belongs to the task."""


class _Guarded:
    def persistent_id(self, value: object) -> None:
        """Refuse what belongs to the task; everything else is pickled as it is."""
        if isinstance(value, (TaskContext, Store, Schedule, NodeContext)):
            raise _LeadsToTask


class _Plain(_Guarded, pickle.Pickler):
    pass


class _ByValue(_Guarded, cloudpickle.CloudPickler):
    """Also knows classes that were made in a notebook."""
