"""Public docstrings follow the template: what goes in and out, where it comes from, an example that runs."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterator

import pytest

import kstreamnb as ks
from kstreamnb import dsl, processors
from kstreamnb.dsl.declarations import Handle

# `export` writes the cells of a notebook: outside one there is nothing to show.
WITHOUT_EXAMPLE = {"export"}


def operators() -> Iterator[tuple[str, str]]:
    """Every operator that a user finds on a handle or a builder, with its docstring."""
    fronts = [front for front in vars(dsl).values() if inspect.isclass(front) and issubclass(front, Handle)]
    for front in fronts:
        for name in dir(front):
            method = inspect.getattr_static(front, name)
            if not name.startswith("_") and inspect.isfunction(method) and not hasattr(Handle, name):
                yield f"{front.__name__}.{name}", inspect.getdoc(method) or ""
    for name in ("stream", "table", "global_table", "add_state_store", "add_global_store"):
        yield f"StreamsBuilder.{name}", inspect.getdoc(getattr(ks.StreamsBuilder, name)) or ""


OPERATORS = dict(operators())


@pytest.mark.parametrize("operator", sorted(OPERATORS))
def test_an_operator_says_its_shape_its_source_and_shows_an_example(operator: str) -> None:
    """Shape: what comes in and out; Source: Kafka's method, and what differs."""
    lacking = [section for section in ("Shape:", "Source:", ">>> ") if section not in OPERATORS[operator]]
    if operator.endswith("queryable_store_name"):  # gives a name: nothing flows
        lacking = []
    assert lacking == []


def test_every_processor_says_its_shape_and_its_source() -> None:
    """A value with ``bind`` in `kstreamnb.processors`; views of stores have no flow, but a source."""
    lacking = []
    for module in pkgutil.iter_modules(processors.__path__):
        for name, value in vars(importlib.import_module(f"kstreamnb.processors.{module.name}")).items():
            ours = inspect.isclass(value) and value.__module__.startswith("kstreamnb.processors")
            if ours and hasattr(value, "bind") and not name.startswith("_") and not name.endswith("View"):
                lacking += [f"{name}: {s}" for s in ("Shape:", "Source:") if s not in (value.__doc__ or "")]
    assert lacking == []


def test_every_public_name_shows_an_example() -> None:
    """In its own docstring, or in that of one of its methods."""
    lacking = set()
    for name in ks.__all__:
        value = getattr(ks, name)
        if inspect.isclass(value) or inspect.isfunction(value):
            members = vars(value).items() if inspect.isclass(value) else ()
            docs = [inspect.getdoc(value), *(inspect.getdoc(m) for key, m in members if not key.startswith("_"))]
            if not any(">>> " in (doc or "") for doc in docs):
                lacking.add(name)
    assert lacking == WITHOUT_EXAMPLE
