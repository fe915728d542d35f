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
    on the record (``return`` in a function, ``continue`` in a loop), ``{position}`` by topic, partition and offset of
    the record, every other word by a name for the object that ``objects`` holds under it. ``{copied}`` is a copy of the
    value for a store, if the source has checked the value and no line has read it since, else the value; ``{counted}``
    is True if the value is known to be a count, else False. Nothing else may happen in the operator's closure than
    these lines and one forward to all children, or none if ``ends``.

    Attributes:
        lines: statements, indented by one space a level.
        writes: those of key, value and timestamp that the lines assign.
        objects: what the words in braces stand for.
        window_size_ms: the new key is the one in the local name ``inner``, in a window of this size.
        old: the lines leave the new part of a change in value and the old one under this name, and whatever needs the
            change makes it; None if they leave a value of another kind.
        of_parts: the lines for a change that comes as these parts, ``{old}`` being the name of the old one; None if
            they need the change.
        counts: the new value is a count.
        wire: the serde that has written the new value to the local name ``wire``, unless its type is a plain one; None
            if none has.
        only_reads: the lines neither change nor keep the old value if it is a flat dict.
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
    old: str | None = None
    of_parts: str | None = None
    counts: bool = False
    wire: Serde | None = None
    only_reads: bool = False
    ends: bool = False

    def render(
        self, name_of: Callable[[str], str], skip: str, position: str = "", old: str | None = None, **facts: object
    ) -> list[str]:
        """Return the lines with names in place of words.

        Args:
            name_of: word to the name of its object in the generated function.
            skip: the statement that ends the work on a record.
            position: topic, partition and offset of the record; a call of the object ``metadata`` if not given.
            old: the name of the old part of a change, if it comes as its parts.
            facts: expressions for ``{copied}`` and ``{counted}``, if known.
        """
        names = {word: name_of(word) for word in self.objects}
        lines = self.lines if old is None else str(self.of_parts)
        words = {"skip": skip, "old": old, "position": position or f"{names.get('metadata')}()"}
        facts = {"copied": "value", "counted": False, **facts}
        return list(filter(None, lines.format(**words, **names, **facts).split("\n")))
