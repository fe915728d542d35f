"""Where in the user's code something was declared: a notebook cell or a file, and the line.

The notebook layer installs the hook `cell_of`; without it, a file name and a line remain.
"""

from __future__ import annotations

import contextlib
import linecache
import os
import sys
import sysconfig
from dataclasses import dataclass, field
from traceback import walk_tb

from kstreamnb import hooks
from kstreamnb.masking import without_secrets

PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep
_NOT_THE_USERS = PACKAGE, contextlib.__file__
"""Files between a call of the user and the kit's code; functions that need an extra are wrapped by contextlib."""
DYNAMIC_CODE = "<dynamic-code>"
"""The file that cloudpickle 3.1.3 and later give functions which they unpickle."""
_FOLDERS = map(sysconfig.get_paths().__getitem__, ("stdlib", "platstdlib", "purelib", "platlib"))
_PACKAGES = (path for path in map(str, sys.path) if path.rstrip(os.sep).endswith(("site-packages", "dist-packages")))
LIBRARIES = tuple(os.path.join(path, "") for path in dict.fromkeys((*_FOLDERS, *_PACKAGES)))
"""Folders of Python's library and of packages, those of the user and the system too, with a separator at the end."""


@dataclass(frozen=True, slots=True)
class SourceLocation:
    """A line of the user's code: ``place`` is ``cell 3`` or a file name without its folder, ``file`` the whole name."""

    place: str
    line: int
    code: str = ""
    file: str = field(default="", repr=False, compare=False)

    def __str__(self) -> str:
        where = f"{self.place}, line {self.line}"
        return f"{where}: {without_secrets(self.code)}" if self.code else where  # services log it


def user_origin() -> SourceLocation:
    """Return the nearest frame outside the kit: where the user declared something."""
    frame = sys._getframe(1)  # noqa: SLF001 - the cheap way to the caller; inspect.stack reads every file
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_NOT_THE_USERS):
        frame = frame.f_back
    return origin_of(frame.f_code.co_filename, frame.f_lineno)


def origin_of(file: str, line: int) -> SourceLocation:
    """Return the place of a line of a code file, as a traceback names it."""
    cell_of = hooks.current().cell_of
    cell = None if cell_of is None else cell_of(file)
    return SourceLocation(cell or os.path.basename(file), line, linecache.getline(file, line).strip(), file)


def user_line(error: BaseException) -> SourceLocation | None:
    """Return the innermost line on an error's traceback that is in the user's code and whose file is known."""
    lines = [(frame.f_code.co_filename, line) for frame, line in walk_tb(error.__traceback__)]
    users = [line for line in lines if not line[0].startswith((PACKAGE, "<kstreamnb", DYNAMIC_CODE, *LIBRARIES))]
    return origin_of(*users[-1]) if users else None
