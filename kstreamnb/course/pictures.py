"""The pictures that open the chapters: drawn by hand, with a description in words."""

from __future__ import annotations

import re
from dataclasses import dataclass
from html import unescape
from pathlib import Path

from kstreamnb.core.arguments import check_arguments
from kstreamnb.course.forms import HasForms
from kstreamnb.errors import KStreamError
from kstreamnb.hints import expect_known

_DRAWINGS = Path(__file__).parent / "drawings"


@dataclass(frozen=True)
class Picture(HasForms):
    """A drawing as SVG; its text is its description."""

    name: str
    svg: str

    def __repr__(self) -> str:
        description = re.search(r"<desc>(.*?)</desc>", self.svg, re.DOTALL)
        return unescape(description[1]).strip() if description else self.name

    def forms(self) -> dict[str, str]:
        """Return the description and the drawing."""
        return {"text/plain": repr(self), "image/svg+xml": self.svg}


def picture(name: str) -> Picture:
    """Return the picture that opens a chapter.

    Args:
        name: the chapter's name, such as ``"count"``.

    Raises: KStreamError for an unknown name.

    Example:
        >>> from kstreamnb import course
        >>> print(str(course.picture("count")).partition(".")[0])
        Records flow from a topic through a count with a store into a topic of updates
    """
    check_arguments(picture, locals())
    names = sorted(path.stem for path in _DRAWINGS.glob("*.svg"))
    expect_known("picture", [name], names, error=KStreamError)
    return Picture(name, (_DRAWINGS / f"{name}.svg").read_text(encoding="utf-8"))
