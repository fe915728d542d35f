"""Every public method of Kafka Streams 4.3 has its counterpart here, or a reason why not.

The DSL, the Processor API, stores, handlers and the test driver with its mock context.
``completeness.json`` lists Java's classes and methods, each with its name here, or ``refused: why``.
"""

from __future__ import annotations

import importlib
import inspect
import json
import re
from pathlib import Path
from typing import Any

import pytest

from kstreamnb.core.stores import Stores
from kstreamnb.hints import from_java
from kstreamnb.testdriver.mock_processor_context import MockProcessorContext
from kstreamnb.testdriver.store_views import (
    DisplayedKeyValueView,
    DisplayedSessionView,
    DisplayedVersionedView,
    DisplayedWindowView,
)
from tests.unit.java_names import CLASSES

JAVA: dict[str, dict[str, str]] = json.loads(Path(__file__).with_name("completeness.json").read_text())
SIGNATURES: dict[str, list[str]] = json.loads(Path(__file__).with_name("java_signatures.json").read_text())
STORES = {
    "KeyValueStore": (Stores.in_memory_key_value_store("s"), DisplayedKeyValueView),
    "WindowStore": (Stores.persistent_window_store("s", retention="1m", window_size="1s"), DisplayedWindowView),
    "SessionStore": (Stores.persistent_session_store("s", retention="1m"), DisplayedSessionView),
    "VersionedKeyValueStore": (Stores.persistent_versioned_key_value_store("s", history="1m"), DisplayedVersionedView),
}
OVERLOADS = {
    "WindowStore": {"fetch_between", "fetch_keys", "backward_fetch_keys"},
    "SessionStore": {"find_sessions_between", "backward_find_sessions_between"},
    "VersionedKeyValueStore": {"history"},
}
"""Our names for methods that share one overloaded name in Java."""

REFUSED = re.compile("refused: ").match
METHODS = [(of, java, ours) for of, methods in JAVA.items() if of for java, ours in methods.items()]


def store_of(interface: str) -> object:
    """Return a store of that kind, as a processor gets it."""
    spec, _ = STORES[interface]
    context = MockProcessorContext()
    context.add_state_store(spec)
    return context.get_state_store("s")


def counterpart(name: str) -> object:
    """Return our class for a Java class; for a kind of store, a store."""
    kind = name.removeprefix("ReadOnly")
    return store_of(kind) if kind in STORES else getattr(importlib.import_module("kstreamnb"), name)


def members(thing: object) -> set[str]:
    """Names of a class: methods, fields and declared attributes, inherited ones included."""
    own = {name for kind in getattr(thing, "__mro__", ()) for name in getattr(kind, "__annotations__", ())}
    return {*dir(thing), *own, *getattr(thing, "_fields", ())}


def test_every_method_of_java_has_its_counterpart() -> None:
    """Under the name in the list, in our class of that name or at ``module:name.name(parameter)``; refusals have a
    reason.
    """
    assert [(of, java, ours) for of, java, ours in METHODS if not is_counterpart(of, ours)] == []


def is_counterpart(of: str, ours: str) -> bool:
    """Return whether a name of the list exists here, or whether its refusal has a reason."""
    if ours.startswith("refused: "):
        return len(ours) > len("refused: ") + 10
    module, colon, path = ours.rpartition(":")
    words = path.removesuffix(")").split("(")
    *way, last = words[0].split(".")
    here: Any = importlib.import_module(f"kstreamnb.{module}") if colon else counterpart(of)
    for word in way:
        here = getattr(here, word, None)
    return last in members(here) and (not words[1:] or words[1] in inspect.signature(getattr(here, last)).parameters)


def test_a_class_that_is_refused_has_a_hint() -> None:
    """Such as those of interactive queries: which call to write instead."""
    refused = [of for of, methods in JAVA.items() if of and all(map(REFUSED, methods.values()))]
    assert len(refused) > 10
    assert [of for of in refused if from_java(of, ()) is None] == []


def test_calls_that_reasons_name_exist() -> None:
    """Reads of stores; each is a method of at least one kind of view."""
    calls = {call for _, _, ours in METHODS for call in re.findall(r"query\.store\(name[^)]*\)\.(\w+)\(", ours)}
    assert {"get", "reverse_range", "fetch", "fetch_all", "history"} <= calls
    assert calls - {name for _, view in STORES.values() for name in members(view)} == set()


def test_no_public_method_of_a_listed_class_is_missing() -> None:
    """``java_signatures.json`` is the output of ``javap -public`` for the jars of Kafka 4.3.1."""
    named = {of: {each.partition("(")[0].rpartition(" ")[2] for each in lines} for of, lines in SIGNATURES.items()}
    assert [(of, missing) for of, methods in named.items() if (missing := methods - JAVA[of].keys())] == []


def test_every_public_class_is_listed_or_has_its_place_elsewhere() -> None:
    """``java_classes.json`` has the public classes of the jars of Kafka Streams 4.3.1 and of its test driver."""
    classes = json.loads(CLASSES.read_text())
    known = SIGNATURES.keys() | JAVA.keys()
    simple = {name: name.rpartition(".")[2] for name in classes["classes"]}
    others = {name for name, last in simple.items() if not {last.replace("$", "."), last.rpartition("$")[2]} & known}
    assert 269 == len(simple)
    assert others == set(classes["elsewhere"])
    assert all(len(here) >= len("a function") for here in classes["elsewhere"].values())


@pytest.mark.parametrize("interface", STORES)
def test_what_kafkas_stores_do_the_stores_of_processors_and_the_drivers_views_of_them_do(interface: str) -> None:
    """Every method of Kafka's interface exists, one name for each of its overloads; a view only reads."""
    kafkas = {*JAVA[interface].values(), *JAVA.get(f"ReadOnly{interface}", {}).values()}
    promised = {name for name in kafkas if not name.startswith("refused: ")} | OVERLOADS.get(interface, set())
    assert promised - members(store_of(interface)) == set()
    writes = {"put", "put_all", "put_if_absent", "delete", "remove", "fetch_between"}
    assert promised - members(STORES[interface][1]) - writes == set()


def test_front_classes_have_no_method_that_java_does_not_know() -> None:
    """The kit's own additions are listed here."""
    own = {
        "StreamsBuilder": {"declarations", "explain", "forget", "graph", "sample"},
        "Handle": {"declaration", "declare", "head", "kind", "origin", "upstream"},
    }
    fronts = [name for name, methods in JAVA.items() if name.endswith(("KStream", "KTable", "Stream", "sBuilder"))]
    for name in fronts:
        listed = set(JAVA[name].values()) | own["Handle"] | own.get(name, set())
        here = {word for word in dir(counterpart(name)) if not word.startswith("_")}
        assert sorted(here - listed - {"prefix"}) == []
