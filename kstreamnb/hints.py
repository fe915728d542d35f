"""Words for errors about names that do not exist: the nearest known one, and the list of all."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from types import TracebackType
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from kstreamnb.data_files import rows_of

if TYPE_CHECKING:  # errors use this module
    from kstreamnb.errors import KStreamError
    from kstreamnb.source_location import SourceLocation

_MOST_NAMES = 10
_SERDE = 'a serde is both: pass "string" or ks.Serdes.long(), or call its serialize(…) and deserialize(…)'

_ABOUT_CODE = TypeError | LookupError | AttributeError | NameError | ArithmeticError

Raised = TypeVar("Raised", bound="KStreamError")

Notes: TypeAlias = Callable[[BaseException, TracebackType | None], Iterable[str]]

ExceptHook: TypeAlias = Callable[[type[BaseException], BaseException, TracebackType | None], object]

_ATTRIBUTES = "key|value|timestamp|headers|topic|partition|offset|start|end|application_id|task_id"
"""Names that are methods in Java."""


@cache
def _java_hints() -> dict[str, str]:
    """Return the hints for names of Java that have no counterpart of the same name."""
    return {name: hint for names, hint in rows_of(__package__, "java_hints.tsv") for name in names.split()}


def without_settings(props: object) -> str:
    """Return what to write instead of Java's ``build(props)``.

    Example:
        >>> without_settings({"topology.optimization": "all"})
        'write build(optimize="all"), and pass settings as config= to the driver, ks.replay, ks.run or ks.deploy'
    """
    wanted = props.get("topology.optimization", False) if isinstance(props, Mapping) else props
    shown = f'"{wanted}"' if isinstance(wanted, str) else wanted
    return f"write build(optimize={shown}), and pass settings as config= to the driver, ks.replay, ks.run or ks.deploy"


def unknown(
    kind: str,
    name: object,
    known: Iterable[object],
    *,
    error: type[Raised],
    detail: str | None = None,
    hint: str | None = None,
    origin: SourceLocation | None = None,
) -> Raised:
    """Make the error for a name that does not exist.

    Args:
        kind: what is looked for, such as "store".
        name: the name that was given.
        known: the names that exist; the error lists at most ten of them.
        error: the class of the error.
        detail: replaces the list of the names that exist.
        hint: follows "did you mean …?", or replaces it if no known name is near.
        origin: the user's line.

    Example:
        >>> from kstreamnb.errors import StateError
        >>> error = unknown("store", "cuonts", ["counts", "totals"], error=StateError)
        >>> print(error, *error.__notes__, sep=chr(10))
        store "cuonts" does not exist
        Detail: existing names: counts, totals
        Hint: did you mean "counts"?
        More: https://kstreamnb.github.io/kstreamnb/errors/stateerror.html
    """
    names = [str(each) for each in known]
    hint = hint or (from_java(str(name), names) if kind == "option" else None)
    hint = " Otherwise ".join(filter(None, (did_you_mean(name, names), hint))) or None
    return error(f'{kind} "{name}" does not exist', detail=detail or existing(names, name), hint=hint, origin=origin)


def expect_known(
    kind: str, names: Iterable[object], known: Collection[object], *, error: type[KStreamError], hint: str | None = None
) -> None:
    """Raise the error of `unknown` for the first of these names that does not exist."""
    for name in names:
        if name not in known:
            raise unknown(kind, name, known, error=error, hint=hint)


def existing(names: Iterable[object], near: object = "") -> str:
    """List the names that exist, for the detail of an error; of many names only those nearest to *near*.

    Example:
        >>> existing(["counts", "totals"]), existing([])
        ('existing names: counts, totals', 'existing names: none')
    """
    return f"existing names: {nearest(near, [str(each) for each in names]) or 'none'}"


def nearest(name: object, known: Sequence[str]) -> str:
    """List at most ten names, beginning with the nearest one if there are more.

    Example:
        >>> nearest("cuonts", ["totals", "counts"]), nearest("cuonts", [*"abcdefghijk", "counts"])
        ('totals, counts', 'counts, c, a, b, d, e, f, g, h, i and 2 more')
    """
    if len(known) <= _MOST_NAMES:
        return ", ".join(known)
    import difflib  # here, because it takes a tenth of the package's import
    import heapq

    matcher = difflib.SequenceMatcher(b=str(name))

    def likeness(each: str) -> float:
        matcher.set_seq1(each)
        return matcher.ratio()

    return f"{', '.join(heapq.nlargest(_MOST_NAMES, known, likeness))} and {len(known) - _MOST_NAMES:,} more"


def did_you_mean(word: object, known: Iterable[str]) -> str | None:
    """Return the hint that names the known word nearest to *word*, None if none is near.

    Example:
        >>> did_you_mean("cuonts", ["counts", "totals"])
        'did you mean "counts"?'
    """
    import difflib  # here, because it takes a tenth of the package's import

    near = difflib.get_close_matches(str(word), list(known), 1)
    return f'did you mean "{near[0]}"?' if near else None


def from_java(name: str, known: Iterable[str]) -> str | None:
    """Return the hint for a name in Java's spelling, None if it is not one.

    Example:
        >>> from_java("persistentKeyValueStore", ["persistent_key_value_store"])
        'did you mean "persistent_key_value_store"?'
        >>> from_java("window", ["key", "start", "end"])
        'a windowed key has .key, .start and .end (ms)'
    """
    ours = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
    if ours != name and ours in known:
        return did_you_mean(ours, [ours])
    java = re.sub("_([a-z])", lambda letter: letter[1].upper(), name)  # as users spell what Java has
    serde = _SERDE if re.search("[sS]erializer$|^[A-Z].*Serde$", name) else None
    return _java_hints().get(name) or _java_hints().get(java) or serde


def for_python(error: BaseException, line: str, known: Iterable[str] = ()) -> str | None:
    """Return the hint for an error of Python's own about a call in Java's shape, None for any other.

    Args:
        error: the error.
        line: the user's line.
        known: public names of the kit, which may be used without its name. Default: none.

    Example:
        >>> for_python(TypeError("'str' object is not callable"), "record.value().trim()")
        'value is an attribute: write it without ()'
    """
    if isinstance(error, SyntaxError):
        return _for_syntax(error.text or "")
    if isinstance(error, ImportError):
        if re.match(r"No module named '(java|org|kstreamnb)\b", message_of(error)):
            return 'the names are in one module: "import kstreamnb as ks"'
        asked = re.match(r"cannot import name '(\w+)' from 'kstreamnb", message_of(error))
        return (from_java(asked[1], ()) or did_you_mean(asked[1], known)) if asked else None
    if isinstance(error, TypeError):
        return _for_types(message_of(error), line)
    if isinstance(error, AttributeError):
        kind = error.obj if isinstance(error.obj, type) else type(error.obj)
        field = re.sub("^get([A-Z])", lambda first: first[1].lower(), error.name or "")
        if isinstance(error.obj, dict) and field in error.obj:
            return f'the value is a dict: write ["{field}"]'
        headers = kind is tuple and "header" in line
        ours = headers or issubclass(kind, Iterator) or kind.__module__.startswith("kstreamnb.")
        of_kind = from_java(f"{kind.__name__}.{error.name}", ()) if ours or kind is tuple else None
        return of_kind or (from_java(error.name or "", dir(error.obj)) if ours else None)
    name = (isinstance(error, NameError) and error.name) or ""
    if name == "ks" or (name in known and (name[:1].isupper() or f"{name}(" in line)):
        imported = '"import kstreamnb as ks"'
        return f"run {imported} first" if name == "ks" else f"write ks.{name}, after {imported}"
    return from_java(name, ()) if name[:1].isupper() or name in ("null", "true", "false") else None


def _for_types(message: str, line: str) -> str | None:
    if handle := re.search(r"'(KStream|KTable|Replay)'|Handle\.__init__", message):
        return _for_handle(handle[1], line)
    if message.endswith("object is not callable") and (called := re.search(rf"\.({_ATTRIBUTES})\(\)", line)):
        return f"{called[1]} is an attribute: write it without ()"
    rows = (row for row in rows_of(__package__, "type_errors.tsv") if re.search(row[0], message) and row[1] in line)
    hint = next((hint for _, _, hint in rows), "")
    return from_java(hint, ()) or hint or None


def _for_handle(kind: str | None, line: str) -> str | None:
    hint = from_java(f"{kind}.records" if kind else "KStream", ())
    field = re.search(r"""\[(["']\w+["'])\]""", line)  # of values, as if it were the column of a data frame
    return f"{hint}: map_values(lambda value: value[{field[1]}])" if field and kind != "Replay" else hint


def _for_syntax(line: str) -> str | None:
    for pattern, hint in rows_of(__package__, "java_syntax.tsv"):
        if match := re.search(pattern, line):
            name = (*match.groups(), "")[0]
            return (name and from_java(name, ())) or hint.format(name)
    return None


def explaining(previous: ExceptHook, notes: Notes) -> ExceptHook:
    """Return a ``sys.excepthook`` that adds notes to an error of Python's own, and calls the previous hook.

    Args:
        previous: the hook that prints the error.
        notes: returns the notes for an error and its traceback.
    """

    def show(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        explain(error, trace, notes)
        previous(kind, error, trace)

    return show


def explain(error: BaseException, trace: TracebackType | None, notes: Notes) -> None:
    """Add notes to an error of Python's own, if the module that raised it has imported something of the kit.

    Args:
        error: the error; it stays as it is if it has notes.
        trace: its traceback.
        notes: returns the notes for an error and its traceback.
    """
    from traceback import walk_tb  # here, because it takes a quarter of the package's import

    inner = "<frozen importlib", contextlib.__file__  # which call on behalf of the module
    frames = [frame for frame, _ in walk_tb(trace) if not frame.f_code.co_filename.startswith(inner)]
    names = frames[-1].f_globals if frames else {}
    origins = (getattr(each, "__module__", None) or getattr(each, "__name__", "") for each in names.values())
    uses_kit = isinstance(error, ImportError) or any(str(origin).startswith("kstreamnb") for origin in origins)
    for note in notes(error, trace) if uses_kit and not hasattr(error, "__notes__") else ():
        error.add_note(note)


def reason_of(error: BaseException, origin: SourceLocation | None = None) -> str:
    """Return the kind and text of an error in one line; without a text that may quote a record, which logs must not.

    Texts of Python's own errors about code are shown, the system's words, and a key that the user's code contains.

    Args:
        error: the error.
        origin: the user's line, for an error that has lost its traceback. Default: None.

    Example:
        >>> reason_of(IndexError("list index out of range")), reason_of(ValueError("could not convert '4111 1111'"))
        ('IndexError: list index out of range', 'ValueError')
        >>> reason_of(KeyError("4111 1111")), reason_of(OSError(28, "No space left on device", "/data"))
        ('KeyError', 'OSError: No space left on device')
    """
    kind, text = type(error).__name__, " ".join(message_of(error).split())
    if hasattr(error, "origin"):  # an error of the package
        return text
    if isinstance(error, OSError):
        text = error.strerror or ""
    elif type(error) is KeyError:
        text = text if _in_code(error, origin.code if origin else "") else ""
    elif type(error).__module__ != "builtins" or not isinstance(error, _ABOUT_CODE):
        text = ""
    return f"{kind}: {text}" if text else kind


def _in_code(error: KeyError, line: str) -> bool:
    """Return whether a missing key is a constant of the user's code: others may come from a record."""
    key, trace = (*error.args, None)[0], error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    constants = () if trace is None else trace.tb_frame.f_code.co_consts
    return isinstance(key, str) and (key in constants or f"'{key}'" in line or f'"{key}"' in line)


def message_of(error: BaseException | None) -> str:
    """Return the text of an error, also of one whose ``__str__`` raises.

    Example:
        >>> message_of(ValueError("too large"))
        'too large'
    """
    try:
        return str(error)
    except BaseException as failure:  # the class belongs to the user: it may raise anything
        return f"(its text is not available: __str__ raised {type(failure).__name__})"


def detailed(error: BaseException) -> str:
    """Return the text of an error; of one of the package with its detail, which says why."""
    detail = hasattr(error, "origin") and getattr(error, "detail", None)
    return f"{message_of(error)}: {detail}" if detail else message_of(error)
