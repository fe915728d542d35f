"""`Block`: an operator's work on one record as lines of Python, for functions that the runtime generates.

Stateless operators and simple aggregates cost less than a function call. So the runtime joins their lines into one
function instead of calling one function for each node; see `kstreamnb.runtime.codegen`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from kstreamnb.core.serde import Serde


@dataclass(frozen=True)
class Block:
    """Lines that do one operator's work on one record.

    Words in braces are replaced when the lines are put into a function: ``{skip}`` by the statement that ends the work
    on the record (``return`` in a function, ``continue`` in a loop), every other word by a name for the object that
    ``objects`` holds under it. ``{copied}`` is a copy of the value for a store, if the source has checked the value and
    no line has read it since, else None. Nothing else may happen in the operator's closure than these lines and one
    forward to all children, or none if ``ends``.

    Attributes:
        lines: statements, indented by one space a level.
        writes: those of key, value and timestamp that the lines assign.
        objects: what the words in braces stand for.
        window_size_ms: the new key is the one in the local name ``inner``, in a window of this size.
        counts: the new value is a count.
        wire: the serde that has written the new value to the local name ``wire``, unless its type is a plain one; None
            if none has.
        ignores_value: the old value is only compared with None.
        ends: nothing is forwarded after the lines.

    Example:
        >>> block = Block("value = {mapper}(value)", writes={"value"}, objects={"mapper": str})
        >>> block.render({"mapper": "mapper_1"}.__getitem__, "return")
        ['value = mapper_1(value)']
    """

    lines: str
    writes: frozenset[str] | set[str] = frozenset()
    objects: Mapping[str, object] = field(default_factory=dict)
    window_size_ms: int | None = None
    counts: bool = False
    wire: Serde | None = None
    ignores_value: bool = False
    ends: bool = False

    def render(self, name_of: Callable[[str], str], skip: str, copied: str = "None") -> list[str]:
        """Return the lines with names in place of words.

        Args:
            name_of: word to the name of its object in the generated function.
            skip: the statement that ends the work on a record.
            copied: the expression for a copy of the value.
        """
        return self.lines.format(skip=skip, copied=copied, **{word: name_of(word) for word in self.objects}).split("\n")
