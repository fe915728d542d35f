"""A mixin that answers an unknown attribute with the name that was probably meant."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from kstreamnb.errors import UnknownNameError


class Suggesting:
    """Mixin that answers an unknown attribute with the name that was probably meant.

    Names with an underscore are probed by Python and by notebooks, and get Python's own answer.
    """

    _elsewhere: ClassVar[Mapping[str, str]] = {}
    """Our name of a method, by the different name that it has in other libraries."""

    if not TYPE_CHECKING:  # a type checker would accept every name otherwise

        def __getattr__(self, name):
            if name.startswith("_") or hasattr(type(self), name):
                return object.__getattribute__(self, name)
            kind, meant = type(self).__name__, self._elsewhere.get(name)
            raise UnknownNameError(f"{'an' if kind[0] in 'AEIOU' else 'a'} {kind}", name, dir(self), meant)
