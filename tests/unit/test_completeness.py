"""Every public method of the DSL of Kafka Streams 4.3 has its counterpart here, or a reason why not.

``completeness.json`` lists Java's classes and methods, each with the name that it has here, or ``refused: why``.
"""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import pytest

JAVA: dict[str, dict[str, str]] = json.loads(Path(__file__).with_name("completeness.json").read_text())
MODULES = ("kstreamnb.dsl", "kstreamnb.core.record", "kstreamnb.core.store_factory")
METHODS = [(of, java, ours) for of, methods in JAVA.items() if of for java, ours in methods.items()]


def counterpart(name: str) -> object:
    """Our class of a Java class."""
    for module in MODULES:
        found = getattr(importlib.import_module(module), name, None)
        if found is not None:
            return found
    raise AssertionError(f"there is no {name}")


@pytest.mark.parametrize(("of", "java", "ours"), METHODS, ids=[f"{of}.{java}" for of, java, _ in METHODS])
def test_a_method_of_the_java_dsl_has_its_counterpart(of: str, java: str, ours: str) -> None:
    """Under the name in the list; refusals say why."""
    if ours.startswith("refused: "):
        assert len(ours) > len("refused: ") + 10
        return
    here = counterpart(of)
    known = {*dir(here), *getattr(here, "__dataclass_fields__", ()), *getattr(here, "_fields", ())}
    assert ours in known


def test_front_classes_have_no_method_that_java_does_not_know() -> None:
    """What is ours alone is listed here."""
    own = {
        "StreamsBuilder": {"declarations", "explain", "forget", "graph", "sample"},
        "Handle": {"declaration", "declare", "head", "kind", "origin", "upstream"},
    }
    fronts = [name for name, methods in JAVA.items() if name.endswith(("KStream", "KTable", "Stream", "Builder"))]
    for name in fronts:
        listed = set(JAVA[name].values()) | own["Handle"] | own.get(name, set())
        here = {word for word in dir(counterpart(name)) if not word.startswith("_")}
        assert sorted(here - listed - {"prefix"}) == []
