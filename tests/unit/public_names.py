"""All public names, those of the root and of its namespaces, and the classes of the objects that they return."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache

import kstreamnb as ks

NAMESPACES = ("course", "kafka", "monitoring", "notebook", "simulation", "spark", "testing", "widgets")
"""Namespaces whose names are loaded at their first use; `errors` and `samples` are ordinary modules."""

INTERNAL = {
    "ChangelogStores": {"give_to"},
    "CheckpointFiles": {"hold"},
    "DeploymentPlan": {"deployment"},
    "Handle": {"declaration", "declare", "upstream"},
    "Options": {"log_fields", "serdes"},
    "ProcessorNode": {"operator", "row_use", "traits"},
    "Query": {"book", "deployment"},
    "QuerySink": {
        *("again", "attach", "claim", "close", "kafka", "on_executors", "open", "owner", "pipelined", "position"),
        *("prepare", "publish", "repeats", "without_output", "finished", "bound", "deployment"),
    },
    "Replay": {"run"},
    "ResetPlan": {"checkpoint"},
    "Sink": {"traits"},
    "Snapshot": {"raw"},
    "Source": {"traits"},
    "StreamsBuilder": {"declarations", "graph"},
    "Topology": {"built_from"},
}
"""Members, by their class or a base of it, that only the package calls; the reference leaves them out."""


PASSED = {
    "OutputMetadata": "the function that chooses a topic in ``ks.KStream.to``",
}
"""Classes without a public name whose objects users' functions get, and which functions these are."""


def public_names() -> dict[str, object]:
    """Return every public name with its namespace, such as ``kafka.Admin``, and its value."""
    inner = (*NAMESPACES, "errors", "samples")
    names: dict[str, object] = {name: getattr(ks, name) for name in ks.__all__ if name not in (*inner, "__version__")}
    for namespace in inner:
        module = getattr(ks, namespace)
        names |= {f"{namespace}.{name}": getattr(module, name) for name in module.__all__}
    helpers = {name for name in names if name.startswith("errors.") and not name.endswith("Error")}
    return {name: value for name, value in names.items() if name not in helpers}


def is_internal(owner: type, member: str) -> bool:
    """Return whether only the package calls a member of a public class."""
    return any(member in INTERNAL.get(kind.__name__, ()) for kind in owner.__mro__)


@cache
def returned_classes() -> dict[type, tuple[str, ...]]:
    """Return the classes without a public name whose objects users get, and the public names that return each, if any.

    A member of such an object may return further ones. Types are found by their names in annotations, which is exact:
    no two classes of the package have the same name.
    """
    public = public_names()
    classes = {value for value in public.values() if inspect.isclass(value)}
    others = {kind.__name__: kind for kind in _classes() if kind not in classes}
    returned = defaultdict[type, list[str]](list, {others[name]: [] for name in PASSED})
    ahead = list(public.items())
    while ahead:
        name, value = ahead.pop(0)
        for member, annotation in _annotations(value):
            for kind in [others[word] for word in re.findall(r"[A-Za-z]\w*", annotation) if word in others]:
                if kind not in returned:
                    ahead.append((kind.__name__, kind))
                returned[kind].append(f"{name}.{member}" if member else name)
    return {kind: tuple(dict.fromkeys(names)) for kind, names in returned.items()}


def _classes() -> Iterator[type]:
    """Yield all classes of the package, except errors and those whose names begin with an underscore."""
    for module in pkgutil.walk_packages(ks.__path__, "kstreamnb."):
        for name, value in vars(importlib.import_module(module.name)).items():
            ours = inspect.isclass(value) and value.__module__ == module.name and not name.startswith("_")
            if ours and not issubclass(value, BaseException):
                yield value


def _annotations(value: object) -> Iterator[tuple[str, str]]:
    """Yield the annotations of a function's result, or of the results and fields of a class, by member."""
    if not inspect.isclass(value):
        yield "", str(getattr(value, "__annotations__", {}).get("return", ""))
        return
    for kind in value.__mro__:
        ours = kind.__module__.startswith("kstreamnb")
        for member, found in {**inspect.get_annotations(kind), **vars(kind)}.items() if ours else ():
            if member.startswith("_") or is_internal(value, member):
                continue
            called = getattr(found, "fget", None) or getattr(found, "func", None) or getattr(found, "__func__", found)
            if inspect.isfunction(called):
                yield member, str(called.__annotations__.get("return", ""))
            elif isinstance(found, str):
                yield member, found
