"""The public names: each can be loaded, and the list changes only on purpose."""

from __future__ import annotations

from pathlib import Path

import pytest

import kstreamnb as ks

NAMES = Path(__file__).with_name("public_api.txt")
NEEDS = {"kstreamnb.spark": "pyspark", "kstreamnb.kafka": "confluent_kafka", "kstreamnb.notebook": "IPython"}


@pytest.mark.parametrize("name", sorted(ks.__all__))
def test_every_public_name_can_be_loaded(name: str) -> None:
    """A name of the list is there when the package behind it is."""
    module = ks._WHERE.get(name, "")
    for prefix, package in NEEDS.items():
        if module.startswith(prefix):
            pytest.importorskip(package)
    assert getattr(ks, name) is not None


def test_the_list_of_public_names_changes_only_on_purpose() -> None:
    """The golden list names exactly what users may rely on."""
    assert NAMES.read_text().split() == sorted(ks.__all__)


def test_an_unknown_name_is_refused() -> None:
    """A misspelt name is an AttributeError, not a late surprise."""
    with pytest.raises(AttributeError, match="StreamBuilder"):
        ks.StreamBuilder  # noqa: B018
