"""Methods that take the keywords of option objects show and document each of them."""

from __future__ import annotations

import inspect
from typing import Unpack

import pytest

from kstreamnb.dsl.keywords import GroupedKeywords, documented_arguments, spelled_out
from kstreamnb.dsl.options import Grouped

__all__ = ["GroupedKeywords"]

DOC = """Group the records.

        Args:
            key: the key.

        Example:
            >>> 1
            1
        """


@pytest.mark.parametrize("doc", [DOC, inspect.cleandoc(DOC)], ids=["as written", "cleaned by Python 3.13"])
def test_keywords_are_documented_one_by_one(doc: str) -> None:
    """Python 3.13 removes the indentation of docstrings when it compiles them; earlier versions keep it."""

    def group(key: str, **keywords: Unpack[GroupedKeywords]) -> None:
        pass

    group.__doc__ = doc
    shown = spelled_out(Grouped)(group)
    assert set(documented_arguments(shown.__doc__)) == {"key", "name", "key_serde", "value_serde"}
    assert (inspect.getdoc(shown) or "").endswith("Example:\n    >>> 1\n    1")
    assert set(inspect.signature(shown).parameters) == {"key", "name", "key_serde", "value_serde"}
