"""Renders the kit's errors: the user's frames, the message and its notes; ``%ks traceback`` shows every frame.

A failing record is named with its key and value, which the error's own text never contains: logs keep that. Kafka's
text is folded away.

Python's own errors that come from inside the kit are shown as ever, up to the user's line.

The node whose function failed is marked in the next picture of its topology.
"""

from __future__ import annotations

import sysconfig
import traceback
from html import escape
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from kstreamnb.core.formatting import format_value
from kstreamnb.display import GraphPicture, Overlay
from kstreamnb.errors import KStreamError, ProcessingError
from kstreamnb.errors.base import LINK, notes_without_link
from kstreamnb.hints import message_of
from kstreamnb.notebook.cells import Cells, forgetting
from kstreamnb.source_location import SourceLocation, origin_of
from kstreamnb.topology.topology import Topology

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

_PACKAGE = str(Path(__file__).parent.parent)
_LIBRARIES = tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")})
_JAVA = "Kafka Streams says: "
_CLASH = "each execution counts as a new cell here: remove an earlier one with {call}"


class Tracebacks:
    """Renders errors for one shell, and keeps the last one in full."""

    def __init__(self, shell: InteractiveShell, cells: Cells) -> None:
        self.shell, self.cells = shell, cells
        self._failed = ""

    def parts_of_topology(self, topology: Topology) -> tuple[None, GraphPicture]:
        """Return the picture of a topology; the node of the last error is marked once."""
        if self._failed not in topology.nodes:
            return None, GraphPicture.of(topology)
        picture = GraphPicture.of(topology, Overlay(marks={self._failed: "failed"}))
        self._failed = ""
        return None, picture

    def show_python_error(
        self,
        shell: InteractiveShell,
        kind: type[BaseException],
        error: BaseException,
        trace: TracebackType | None,
        tb_offset: int | None = None,
    ) -> None:
        """Show an error that is none of the kit's, without the kit's frames after the last one of the user."""
        users = _up_to_user(trace)
        if users is not trace:
            shell.kstreamnb_error = error
        shell.showtraceback((kind, error, users), tb_offset=tb_offset)

    def _forgetting(self, origin: SourceLocation | None) -> str | None:
        """Return the call that forgets the earlier declaration of the same text, or else that at ``origin``."""
        for log in self.cells.logs:
            here = [each.origin for each in log.declarations()]
            if origin is not None and origin.place in {each.place for each in here}:
                earlier = [each for each in here if each.code == origin.code and each.place != origin.place]
                return forgetting(self.shell, log, (earlier or [origin])[0].place)
        return None

    def render(self, error: KStreamError) -> list[str]:
        """Return the lines that IPython prints instead of a full traceback."""
        self.shell.kstreamnb_error = error
        self._failed = getattr(error, "node", "")
        lines = [error_text(error)]
        if not self.cells.ids_are_sent and "already" in f"{error} {error.java}":
            call = self._forgetting(error.origin)
            lines += [f"Hint: {_CLASH.format(call=call)}"] if call else []
        lines.append(f"{LINK}{error.url}" + ("; %ks traceback shows what Kafka Streams says" if java_of(error) else ""))
        cause = error.__cause__
        if cause is not None:
            lines += ["", "Caused by:", *_frames(cause), f"{type(cause).__name__}: {message_of(cause)}"]
        return [*_frames(error), *lines]


def _up_to_user(trace: TracebackType | None) -> TracebackType | None:
    """Return a traceback without what follows the last frame of the user, if the kit comes first there."""
    entries, entry = [], trace
    while entry is not None:
        entries.append(entry)
        entry = entry.tb_next
    files = [each.tb_frame.f_code.co_filename for each in entries]
    last = max((at for at, file in enumerate(files) if not file.startswith((_PACKAGE, *_LIBRARIES))), default=-1)
    if last < 0 or not any(file.startswith(_PACKAGE) for file in files[last + 1 : last + 2]):
        return trace
    users: TracebackType | None = None
    for each in reversed(entries[: last + 1]):
        users = TracebackType(users, each.tb_frame, each.tb_lasti, each.tb_lineno)
    return users


def _frames(error: BaseException) -> list[str]:
    """Return the user's frames, outermost first; files by name, never by folder."""
    frames = traceback.extract_tb(error.__traceback__)
    shown = []
    for frame in frames:
        if frame.filename.startswith((_PACKAGE, "<kstreamnb", "<frozen", *_LIBRARIES)):
            continue
        origin = origin_of(frame.filename, frame.lineno or 0)
        where = f" in {frame.name}" if frame.name != "<module>" else ""
        shown += [f"  {origin.place}, line {origin.line}{where}", f"    {frame.line or origin.code}"]
    return shown


def whole_traceback(shell: InteractiveShell) -> str:
    """Return the last error of the kit with every frame."""
    error = getattr(shell, "kstreamnb_error", None)
    if error is None:
        return "no error of kstreamnb so far"
    return "".join(traceback.format_exception(error)).rstrip()


def fact_of(error: BaseException) -> str:
    """Return what failed; for a user's function the function's error and the record.

    Example:
        >>> from kstreamnb import StreamsBuilder, Sample, replay
        >>> builder = StreamsBuilder("shop")
        >>> builder.stream("orders").map_values(lambda order: order["m"]).to("out")
        >>> try:
        ...     replay(builder.build(), Sample.from_records([("orders", 0, 0, 5, "a", {"n": 1})]))
        ... except ProcessingError as error:
        ...     print(fact_of(error))
        KeyError 'm' at orders-0@0 key "a" value {"n": 1}
    """
    cause = error.__cause__
    if not isinstance(error, ProcessingError) or error.record is None or error.coordinates is None:
        return message_of(error)
    key, value = map(format_value, error.record)
    topic, partition, offset, _ = error.coordinates
    own = cause is None or isinstance(cause, KStreamError)
    fact = str(error) if own else f"{type(cause).__name__} {message_of(cause)}".rstrip()
    return f"{fact} at {topic}-{partition}@{offset} key {key} value {value}"


def notes_of(error: BaseException) -> list[str]:
    """Return the notes without Kafka's text and the link; the cause and the node that the fact does not name."""
    cause, fact = error.__cause__, fact_of(error)
    named = cause is None or isinstance(cause, KStreamError) or fact.startswith(f"{type(cause).__name__} ")
    because = [] if named else [f"Cause: {type(cause).__name__}: {message_of(cause)}"]
    node = f'Node: "{error.node}"' if isinstance(error, ProcessingError) and error.node not in fact else None
    notes = [note for note in notes_without_link(error) if not note.startswith(_JAVA)]
    return [*because, *([node] if node else []), *notes]


def java_of(error: BaseException) -> str:
    """Return Kafka's text for the same mistake, or nothing."""
    return next((note for note in getattr(error, "__notes__", ()) if note.startswith(_JAVA)), "")


def error_words(error: BaseException) -> str:
    """Return an error without its type, line by line, Kafka's text last."""
    return "\n".join(filter(None, [fact_of(error), *notes_of(error), java_of(error)]))


def error_text(error: BaseException) -> str:
    """Return an error with its type and notes, line by line."""
    return "\n".join([f"{type(error).__name__}: {fact_of(error)}", *notes_of(error)])


def error_page(error: BaseException) -> str:
    """Return an error as HTML, Kafka's text folded."""
    title, _, rest = java_of(error).partition(": ")
    folded = f"<details><summary>{escape(title)}</summary>{escape(rest)}</details>" if title else ""
    return f'<pre style="white-space:pre-wrap">{escape(error_text(error))}</pre>{folded}'
