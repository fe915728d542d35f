"""The loop that the tasks of a topic's partitions share: each record gets the objects of its partition's task."""

from __future__ import annotations

import re
from collections.abc import Sequence

from kstreamnb.runtime.codegen.function_builder import OWN_NAMES, FunctionBuilder
from kstreamnb.runtime.codegen.record_loop import TOPIC_RECORDS, Loop
from kstreamnb.runtime.task.executor import Executor


def shared_loop(tasks: Sequence[Executor], topic: str, *, marked: bool) -> tuple[Loop | None, list[int]]:
    """Return the loop for records of all partitions of a topic, and the list that it marks; see `Executor.run_batch`.

    There is none if the tasks of the partitions differ in more than their objects.
    """
    key, first = (topic, TOPIC_RECORDS, marked, "shared"), tasks[0]
    if key not in first.loops:
        marks, queues = first.marks if marked else None, [task.queue_of(topic, n) for n, task in enumerate(tasks)]
        pairs = zip(tasks, queues, strict=True)
        builders = [task.compiler.loop(queue, TOPIC_RECORDS, marks, None, None) for task, queue in pairs]
        shares = _share(builders)
        first.loops[key] = builders[0].compile(*(task.locations for task in tasks)) if shares else None
    return first.loops[key], first.marks


def _share(builders: Sequence[FunctionBuilder]) -> bool:
    """Let the first function take the objects in which it differs; return False if lines differ, or punctuate."""
    first, *others = builders
    used = set(re.findall(r"\w+", "\n".join(first.lines)))
    if "due" in used or any(other.lines != first.lines for other in others):
        return False
    found = [set(map(_identity, each)) for each in zip(*(builder.names.values() for builder in builders), strict=True)]
    names = [name for name, same in zip(first.names, found, strict=True) if name in used and len(same) > 1]
    first.lines = [line.replace(OWN_NAMES, f"[{', '.join(names)}] = {OWN_NAMES}") for line in first.lines]
    first.names["own"] = [tuple(map(builder.names.__getitem__, names)) for builder in builders]
    return True


def _identity(thing: object) -> tuple[int, str]:
    """Return a value that is the same for one object, and for bound methods of one object with the same name."""
    return id(getattr(thing, "__self__", thing)), getattr(thing, "__name__", "")
