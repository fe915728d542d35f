"""Functions that open widgets, apart from the modules of the widgets.

Plain displays need no live kernel. Widgets need anywidget, which is imported only when one is opened.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from kstreamnb.errors import extra


def explorer(thing: object) -> Any:
    """Open the graph of a topology, a builder, a stream, a table, a replay with its counts, or a running query.

    Zoom, search, fold and unfold; a click on a node shows its code, cell, stores, serdes and counts. The widget's
    ``selected`` is the name of the node clicked last. Arrow keys move in the order of the flow.
    A profile of a replay and a running query are painted by cost, a query again every two seconds: operators by their
    sub-topology's share of the time, stores by their share of the writes, and a row for each task.

    Args:
        thing: a topology, builder, stream, table or replay.

    Example:
        >>> from kstreamnb import Topology
        >>> explorer(Topology("copies").add_source("in", "orders").add_sink("out", "copies", "in"))
        <Explorer: Topology "copies">
    """
    return _made("explorer", "Explorer", thing)


def stepper(replay: object) -> Any:
    """Open a replay to step through: forwards, backwards, to the next breakpoint.

    The widget moves the replay's own position, so ``replay.now`` is what it shows.

    Args:
        replay: the `Replay` that `replay` returned.

    Example:
        >>> from kstreamnb import Sample, Topology, replay
        >>> topology = Topology("copies").add_source("in", "orders").add_sink("out", "copies", "in")
        >>> walk = stepper(replay(topology, Sample.from_records([("orders", 0, 0, 5, "shoe", 1)])))
        >>> walk.tell("back")
        >>> walk.replay.position, walk.facts["title"]
        (0, 'before the first step')
    """
    return _made("stepper", "Stepper", replay)


def browse(rows: object) -> Any:
    """Open rows to sort, search and filter: of a store, an output, a preview, drops or a sample.

    The search takes a text, or a condition on a column or a field of its values: ``value.price > 10``, ``key = ann``,
    ``time >= 2026-01-01T10:00Z``. Everything runs in Python, so a frame of 100,000 rows reaches the page 25 at a time.

    Args:
        rows: a store of a test driver, of a replay's snapshot or of a running query; ``replay.output(topic)``,
            ``replay.drops``, ``stream.head()`` or a `Sample`.

    Example:
        >>> from kstreamnb import Sample
        >>> found = browse(Sample.from_records([("orders", 0, at, at, "ann", {"price": at}) for at in range(60)]))
        >>> found.tell("search", text="value.price > 56")
        >>> found.tell("sort", by="value")
        >>> found.facts["number"], found.facts["rows"][0]
        ('1 to 3 of 3 that match, of 60', ['orders', '0', '57', '57', '"ann"', '{"price": 57}'])
    """
    return _made("browser", "RowBrowser", rows)


def edit(sample: object) -> Any:
    """Open a sample as an editable table; the widget's ``sample`` is the edited copy, the original stays.

    Args:
        sample: the `Sample` to edit.

    Example:
        >>> from kstreamnb import Sample
        >>> editor = edit(Sample.from_records([("orders", 0, 0, 5, "shoe", 1)]))
        >>> editor.tell("put", row=0, column="value", text="2")
        >>> editor.sample[0].value
        2
    """
    return _made("editor", "SampleEditor", sample)


def panel(query: object) -> Any:
    """Open a deployment: state, rates, lag, stores, dead letters and the last error, with Stop and Restart.

    Args:
        query: the `Query` that `deploy` or `run` returned.

    Example:
        >>> from kstreamnb.errors import ConfigError
        >>> try:
        ...     panel("a query")
        ... except ConfigError as error:
        ...     print(error, *error.__notes__, sep=chr(10))
        query must be Query, got 'a query'
        Hint: pass the result of ks.deploy
        More: https://kstreamnb.github.io/kstreamnb/errors/configerror.html
    """
    return _made("panel", "DeployPanel", query)


@extra("notebook")
def _made(module: str, name: str, thing: object) -> Any:
    """Create a widget; its class is imported only now."""
    return getattr(import_module(f"kstreamnb.notebook.widgets.{module}"), name)(thing)
