"""A mixin that answers an unknown attribute with the name that was probably meant."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kstreamnb.data_files import rows_of
from kstreamnb.errors import UnknownNameError


class _SuggestingType(type):
    """The same for attributes of a class, such as its factories."""

    if not TYPE_CHECKING:

        def __getattr__(cls, name):
            if name.startswith("_"):  # of all classes; `help` would list what this returned as the metaclass's own
                raise AttributeError(f"type object '{cls.__name__}' has no attribute '{name}'", name=name, obj=cls)
            raise UnknownNameError(cls.__name__, name, dir(cls), _elsewhere(cls, name))


class Suggesting(metaclass=_SuggestingType):
    """Mixin that answers an unknown attribute with the name that was probably meant.

    Names with an underscore are probed by Python and by notebooks, and get Python's own answer. Errors name a class by
    its ``_noun``, if it has one, because users do not write its name.
    """

    __slots__ = ()

    if not TYPE_CHECKING:  # a type checker would accept every name otherwise

        def __getattr__(self, name):
            kind = type(self)
            if name.startswith("_") or any(name in vars(each) for each in kind.__mro__):
                return object.__getattribute__(self, name)
            noun = vars(kind).get("_noun", kind.__name__)
            article = "an" if noun[0] in "AEIOU" else "a"
            raise UnknownNameError(f"{article} {noun}", name, dir(self), _elsewhere(kind, name))


def _elsewhere(kind: type, name: str) -> str | None:
    """Return what a class has instead of a method, by the name that the method has in other libraries."""
    kinds = {each.__name__ for each in kind.__mro__}
    rows = (row for row in rows_of(__package__, "other_names.tsv") if row[0] in kinds and name in row[1].split())
    return next((ours.format(name) for _, _, ours in rows), None)
