"""The public names: each can be loaded, and the list changes only on purpose."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

import kstreamnb as ks
from tests.unit.public_names import public_names

NAMES = Path(__file__).with_name("public_api.txt")


@pytest.mark.parametrize("package", ["pyspark", "confluent_kafka", "IPython"])
def test_what_public_names_need_is_installed(package: str) -> None:
    """Without these packages the next test could not load every name."""
    pytest.importorskip(package)


def test_the_list_of_public_names_changes_only_on_purpose() -> None:
    """Every name of the golden list can be loaded, and there is no other."""
    assert NAMES.read_text().split() == sorted(public_names())


def test_the_root_has_the_names_that_every_topology_needs_and_no_more() -> None:
    """Names for operation, measurement and simulation are in a namespace."""
    assert len(ks.__all__) <= 85


@pytest.mark.parametrize(
    ("namespace", "name"),
    [("kstreamnb", "StreamBuilder"), ("kstreamnb.kafka", "LocalBrokers"), ("kstreamnb.spark", "x")],
)
def test_an_unknown_name_is_refused(namespace: str, name: str) -> None:
    """A misspelt name is an AttributeError that names the namespace."""
    import importlib

    with pytest.raises(AttributeError, match=name):
        getattr(importlib.import_module(namespace), name)


def test_no_public_name_is_that_of_a_module_beside_it() -> None:
    """Importing such a module would replace the function."""
    import pkgutil

    for package in (ks, ks.kafka, ks.notebook, ks.simulation, ks.spark, ks.testing):
        modules = {module.name for module in pkgutil.iter_modules(package.__path__)}
        namespaces = {name for name in package.__all__ if inspect.ismodule(getattr(package, name))}
        assert not (modules & set(package.__all__)) - namespaces
