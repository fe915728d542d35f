"""Renders the kit's errors: the user's frames, the message and its notes; ``%ks traceback`` shows every frame.

A failing record is named with its key and value, which the error's own text never contains: logs keep that. Kafka's
text is folded away.

Python's own errors that come from inside the kit are shown as usual, up to the user's line. A
call of the kit with wrong arguments gets the signature, the arguments, the next action and an example as notes.

The node whose function failed is marked in the next picture of its topology.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from types import TracebackType
from typing import TYPE_CHECKING

from kstreamnb.core.formatting import format_value
from kstreamnb.display.graph import Overlay
from kstreamnb.display.picture import GraphPicture
from kstreamnb.display.style import preformatted
from kstreamnb.errors import KStreamError, ProcessingError
from kstreamnb.errors.base import LINK, notes_without_link
from kstreamnb.hints import did_you_mean, message_of, nearest
from kstreamnb.masking import clean_lines
from kstreamnb.notebook.cells import Cells, forgetting
from kstreamnb.source_location import LIBRARIES, SourceLocation, origin_of
from kstreamnb.tools.python_notes import python_notes, up_to_user
from kstreamnb.topology.topology import Topology

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

_JAVA = "Kafka Streams says: "
_CLASH = "each execution counts as a new cell here: remove an earlier one with {call}"


class Tracebacks:
    """Renders errors for one shell, and keeps the last one in full."""

    def __init__(self, shell: InteractiveShell, cells: Cells) -> None:
        self.shell, self.cells = shell, cells
        self._failed = ""

    def parts_of_topology(self, topology: Topology) -> tuple[None, Sequence[GraphPicture]]:
        """Return the picture of a topology; the node of the last error is marked once."""
        marks = {self._failed: "failed"} if self._failed in topology.nodes else {}
        self._failed = "" if marks else self._failed
        return None, [GraphPicture.of(topology, Overlay(marks=marks))]

    def show_python_error(
        self,
        shell: InteractiveShell,
        kind: type[BaseException],
        error: BaseException,
        trace: TracebackType | None,
        tb_offset: int | None = None,
    ) -> None:
        """Show an error that is not the kit's own, without the kit's frames after the user's last one."""
        users = up_to_user(trace)
        if users is not trace:
            shell.kstreamnb_error = error
        notes = python_notes(error, users)
        if type(error) is NameError and users is not None and error.name != "ks":
            notes = [_undefined(error.name, shell.user_ns, notes)]
        for note in () if hasattr(error, "__notes__") else notes:
            error.add_note(note)
        shell.showtraceback((kind, error, users), tb_offset=tb_offset)

    def _forgetting(self, origin: SourceLocation | None, detail: str | None) -> str | None:
        """Return the call that forgets the earlier declaration: of the same text, in ``detail``, or at ``origin``."""
        for log in self.cells.logs:
            here = [each.origin for each in log.declarations()]
            if origin is not None and origin.place in {each.place for each in here}:
                others = [each for each in here if each.place != origin.place]
                earlier = [each for each in others if each.code == origin.code or f"{each}" in f"{detail}"]
                return forgetting(self.shell, log, (earlier or [origin])[0].place)
        return None

    def render(self, error: KStreamError) -> list[str]:
        """Return the lines that IPython prints instead of a full traceback."""
        self.shell.kstreamnb_error = error
        self._failed = getattr(error, "node", "")
        lines = [error_text(error), *_fields(error)]
        if not self.cells.ids_are_sent and "already" in f"{error} {error.java}":
            call = self._forgetting(error.origin, error.detail)
            lines += [f"Hint: {_CLASH.format(call=call)}"] if call else []
        lines.append(f"{LINK}{error.url}" + ("; %ks traceback shows what Kafka Streams says" if java_of(error) else ""))
        cause = error.__cause__
        if cause is not None:
            lines += ["", "Caused by:", *_frames(cause), f"{type(cause).__name__}: {message_of(cause)}"]
        return list(map(clean_lines, (*_frames(error), *lines)))


def _fields(error: KStreamError) -> Iterator[str]:
    """Yield a hint with the fields of the failing record if a field is missing."""
    value = error.record[1] if isinstance(error, ProcessingError) and error.record else None
    if isinstance(error.__cause__, KeyError) and error.__cause__.args and isinstance(value, dict):
        field, names = error.__cause__.args[0], list(map(str, value))
        if str(field) not in names:
            yield f"Hint: {did_you_mean(field, names) or f'the record has the fields {nearest(field, names)}'}"


def _undefined(name: object, known: Iterable[str], hints: Sequence[str]) -> str:
    """Return the hint for a name that no cell has defined: its cell was skipped, or ran before a restart."""
    run = f"run the cell that defines {name}, or all cells above"
    near = [each for each in known if len(each) > 2 and not each.startswith("_")]  # "s" is near to "ks"
    hint = "".join(hints).removeprefix("Hint: ") or did_you_mean(str(name), near)
    return f"Hint: {hint}{'' if hint.endswith('?') else '.'} Otherwise {run}" if hint else f"Hint: {run}"


def _frames(error: BaseException) -> list[str]:
    """Return the user's frames, outermost first; files by name, never by folder."""
    trace, shown = error.__traceback__, list[str]()
    for (running, _), frame in zip(traceback.walk_tb(trace), traceback.extract_tb(trace), strict=True):
        package = str(running.f_globals.get("__name__")).partition(".")[0]  # methods of dataclasses have no file
        if package == "kstreamnb" or frame.filename.startswith(("<kstreamnb", "<attrs", "<frozen", *LIBRARIES)):
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
    kind = type(cause).__name__
    is_users = error.message.endswith(f" with {kind}")  # not if a store, a serde or another part of the kit failed
    fact = f"{kind} {message_of(cause)}".rstrip() if is_users else str(error)
    return f"{fact} at {topic}-{partition}@{offset} key {key} value {value}"


def notes_of(error: BaseException) -> list[str]:
    """Return the notes without Kafka's text and the link; the cause and the node that the fact does not name."""
    cause, fact = error.__cause__, fact_of(error)
    kind, text = type(cause).__name__, message_of(cause)
    named = cause is None or isinstance(cause, KStreamError) or fact.startswith(f"{kind} ") or f"{kind}: {text}" in fact
    because = [] if named else [f"Cause: {kind}: {text}"]
    node = f'Node: "{error.node}"' if isinstance(error, ProcessingError) and error.node not in fact else None
    notes = [note for note in notes_without_link(error) if not note.startswith(_JAVA)]
    return [*because, *([node] if node else []), *notes]


def java_of(error: BaseException) -> str:
    """Return Kafka's text for the same mistake, or nothing."""
    return next((note for note in getattr(error, "__notes__", ()) if note.startswith(_JAVA)), "")


def error_words(error: BaseException) -> str:
    """Return an error without its type, line by line, Kafka's text last."""
    return clean_lines("\n".join(filter(None, [fact_of(error), *notes_of(error), java_of(error)])))


def error_text(error: BaseException) -> str:
    """Return an error with its type and notes, line by line."""
    return clean_lines("\n".join([f"{type(error).__name__}: {fact_of(error)}", *notes_of(error)]))


def error_page(error: BaseException) -> str:
    """Return an error as HTML, Kafka's text folded."""
    title, _, rest = java_of(error).partition(": ")
    folded = f"<details><summary>{escape(title)}</summary>{escape(rest)}</details>" if title else ""
    return f"{preformatted(error_text(error))}{folded}"
