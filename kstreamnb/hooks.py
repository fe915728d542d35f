"""Hooks: functions that higher layers install for lower layers to call.

The package itself installs how models are drawn and previewed; the notebook extension installs cells, progress bars
and the parity check before a deployment. All hooks are one frozen value that is replaced as a whole, so that a
reader finds in one place every call that goes against the direction of the imports.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

if TYPE_CHECKING:  # frames and Spark are optional
    import pandas
    from pyspark.sql import DataFrame, SparkSession

Advance: TypeAlias = Callable[[int], None]
"""``advance(n)``: n more parts of a long operation are done."""

Poll: TypeAlias = "Callable[[], tuple[int, int | None]]"
"""How many parts are done, of how many; called now and then from another thread."""


class Hooks(NamedTuple):
    """The installed functions: those of the package, and those of the notebook extension or None.

    Attributes:
        mimebundle: ``(model, include, exclude)`` to what a notebook front end shows, by MIME type.
        draw: ``(model, form)`` to text; the forms are ``to_text``, ``to_mermaid``, ``to_dot`` and ``to_svg``.
        preview: ``(handle, sample, n)`` to the first n records that reach a stream or table.
        pandas_frame: ``(columns)`` to a pandas frame; columns of times are in ms.
        spark_frame: ``(columns, session)`` to a Spark frame.
        node_seconds: ``(replay)`` to CPU seconds by node, measured in another run of its input.
        warm_up: ``(session, wanted)`` runs a small job in a new session of Spark, as long as ``wanted()``.
        cell_of: code file name to the name of its notebook cell; None for a file that is not a cell.
        identities: tells which declarations of a notebook are the same; see `kstreamnb.dsl.declarations`.
        progress: ``(unit, total, poll)`` to a context that watches a long operation and yields ``advance``.
        pre_deploy: ``(topology, session, config, partitions)``, called before a deployment; it raises to prevent it.
    """

    mimebundle: Callable[[object, Collection[str] | None, Collection[str] | None], dict[str, str]]
    draw: Callable[[object, str], str]
    preview: Callable[[Any, Any, int], Any]
    pandas_frame: Callable[[dict[str, list[object]]], pandas.DataFrame]
    spark_frame: Callable[[dict[str, list[object]], SparkSession | None], DataFrame]
    node_seconds: Callable[[Any], dict[str, float]]
    warm_up: Callable[[SparkSession, Callable[[], bool]], None]
    cell_of: Callable[[str], str | None] | None = None
    identities: Any = None
    progress: Callable[[str, int | None, Poll | None], AbstractContextManager[Advance]] | None = None
    pre_deploy: Callable[[Any, Any, Any, Mapping[str, int]], None] | None = None


_installed: list[Hooks] = []


def current() -> Hooks:
    """Return the installed hooks."""
    return _installed[0]


def install(**changes: Any) -> None:
    """Replace some of the hooks; None uninstalls one of the notebook extension.

    Example:
        >>> before = current().cell_of
        >>> install(cell_of=lambda file: "cell 1")
        >>> current().cell_of("any.py")
        'cell 1'
        >>> install(cell_of=before)
    """
    _installed[:] = [_installed[0]._replace(**changes) if _installed else Hooks(**changes)]


def lazy(module: str, name: str) -> Callable[..., Any]:
    """Return a function that imports ``module`` at its first call and calls ``name`` in it."""
    return lambda *args: getattr(import_module(module), name)(*args)
