"""Refuses topologies that cannot run on Spark before anything starts: by node, with the reason and an alternative.

Functions travel to Spark's workers as bytes. A function that refers to a connection, a lock or the session cannot be
sent; nor can a topology without an input run.
"""

from __future__ import annotations

import inspect
import io
import re
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import fields, is_dataclass
from typing import Any

from kstreamnb.errors import SparkError, TopologyError
from kstreamnb.spark.jvm.constants import LARGEST_FUNCTION
from kstreamnb.spark.planning.deployment import ApplicationPlan, DeploymentPickler, FunctionPickler
from kstreamnb.topology.topology import Topology

_BESIDE = 1 << 16  # packed by Spark beside the topology

_MAKE_IT_THERE = (
    "make it where it is used: inside the function, or in the init of a ks.Processor, so that every worker has its own"
)


def refuse_what_cannot_run(application: ApplicationPlan, *, planned: bool = False) -> None:
    """Raise SparkError for the first node that Spark's workers cannot run; nothing has started then.

    With ``planned`` a registry in this process is a warning: tests have one, and the plan is that of any registry.
    """
    if not application.external:
        fact = f'application "{application.id}" reads no topic'
        hint = "add a source: builder.stream(…), builder.table(…) or Topology.add_source(…)"
        raise TopologyError(fact, detail="only global tables and topics that it writes itself feed it", hint=hint)
    if _failure(application) is None:
        try:
            DeploymentPickler(io.BytesIO(), 5).dump(application)
        except SparkError as error:
            if not planned:
                raise
            warnings.warn(f"{error}: {error.detail}; {error.hint}", stacklevel=3)  # the line that calls plan()
        return
    topology = application.topology
    for node in topology.nodes.values():
        parts = [getattr(node, each.name) for each in fields(node) if each.name != "origin"]
        _refuse(f'node "{node.name}"', parts, node.origin)
    for store in topology.stores.values():
        _refuse(f'store "{store.name}"', [store], None)
    settings = application.config
    for each in fields(settings):
        _refuse(f'setting "{each.name}"', [getattr(settings, each.name)], None)
    raise SparkError(_cannot(f'application "{application.id}"'), detail=_failure(application), hint=_MAKE_IT_THERE)


def refuse_what_is_too_large(size: int, limit: str) -> None:
    """Raise SparkError if functions would become a broadcast, which Spark's stateful operators cannot read.

    ``limit`` is a size as Spark writes it, such as "1m".

    Example:
        >>> try:
        ...     refuse_what_is_too_large(3 << 20, "1m")
        ... except SparkError as error:
        ...     print(error)
        the topology with its functions has 3,145,728 bytes, and this session sends 1m at most
    """
    words = re.fullmatch(r"(\d+)([kmgt]?)b?", limit.lower())
    most = int(words[1]) << 10 * " kmgt".index(words[2] or " ") if words else 1 << 20
    if size > most - _BESIDE:
        fact = f"the topology with its functions has {size:,} bytes, and this session sends {limit} at most"
        hint = f'start the session with "{LARGEST_FUNCTION}": "1g", as spark_session() does'
        hint = f"{hint}; or read the data in the init of a ks.Processor"
        raise SparkError(fact, detail="captured data is sent with the functions", hint=hint)


def _refuse(what: str, parts: Iterable[Any], origin: Any) -> None:
    for part in parts:
        reason = _failure(part)
        if reason is not None:
            held = next(_held(part, set()), None)
            detail = reason if held is None else f"{held}: {reason}"
            raise SparkError(_cannot(what), detail=detail, hint=_MAKE_IT_THERE, origin=origin)


def _cannot(what: str) -> str:
    return f"{what} cannot be sent to Spark's workers"


def _failure(part: object) -> str | None:
    """Return why an object cannot be pickled, in one line; None if it can."""
    try:
        FunctionPickler(io.BytesIO(), 5).dump(part)
    except Exception as error:  # whatever pickling a user's object raises is the reason
        return (str(error) or type(error).__name__).splitlines()[0]
    return None


def _held(part: object, seen: set[int]) -> Iterator[str]:
    """Yield the names of captured objects of an operator's functions that cannot be pickled."""
    if id(part) in seen:
        return
    seen.add(id(part))
    if inspect.isfunction(part):
        known = inspect.getclosurevars(part)
        for name, value in {**known.globals, **known.nonlocals}.items():
            if _failure(value) is not None:
                inner = next(_held(value, seen), None)
                yield inner or f'function "{part.__name__}" uses "{name}"'
    elif is_dataclass(part) and not isinstance(part, (type, Topology)):
        for each in fields(part):
            yield from _held(getattr(part, each.name), seen)
    elif hasattr(part, "func"):  # functools.partial
        yield from _held(part.func, seen)
