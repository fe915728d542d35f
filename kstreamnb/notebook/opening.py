"""How widgets are opened: a function each, apart from the modules that have their names.

A plain display never needs a live kernel. Widgets are made of anywidget, which is asked for only when one is opened.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from kstreamnb.errors import extra

__all__ = ["browse", "edit", "explorer", "panel", "stepper"]


def explorer(thing: Any) -> Any:
    """Look around in the graph of a topology, a builder, a stream or table, or a replay with its counts.

    Zoom, search, fold and unfold; a click on a node shows its code, its cell, its stores, serdes and counts. The
    widget's ``selected`` is the name of the node that was clicked last. Arrow keys walk in the order of the flow.

    Example:
        >>> from kstreamnb import Topology
        >>> explorer(Topology("copies").add_source("in", "orders").add_sink("out", "copies", "in"))
        <Explorer: Topology "copies">
    """
    return _made("explorer", "Explorer", thing)


def stepper(replay: Any) -> Any:
    """Walk through a replay: forwards, backwards, to the next breakpoint.

    It moves the replay's own position, so that ``replay.now`` is what the widget shows.

    Example:
        >>> from kstreamnb import Sample, Topology, replay
        >>> topology = Topology("copies").add_source("in", "orders").add_sink("out", "copies", "in")
        >>> walk = stepper(replay(topology, Sample.from_records([("orders", 0, 0, 5, "shoe", 1)])))
        >>> walk.tell("back")
        >>> walk.replay.position, walk.facts["title"]
        (0, 'before the first step')
    """
    return _made("stepper", "Stepper", replay)


def browse(store: Any) -> Any:
    """Look through the rows of a store: of a moment of a replay, of a test driver, or of a deployment while it runs.

    Example:
        >>> from kstreamnb import StreamsBuilder, TopologyTestDriver
        >>> builder = StreamsBuilder()
        >>> counts = builder.stream("orders").group_by_key().count(store="counts")
        >>> driver = TopologyTestDriver(builder.build())
        >>> driver.create_input_topic("orders").pipe_input("shoe", 1, at=5)
        >>> browse(driver.get_key_value_store("counts")).facts["rows"]
        [['"shoe"', '1', '', '', '']]
    """
    return _made("browser", "StoreBrowser", store)


def edit(sample: Any) -> Any:
    """Edit a sample as a table; the widget's ``sample`` is the new one, the old one stays as it is.

    Example:
        >>> from kstreamnb import Sample
        >>> editor = edit(Sample.from_records([("orders", 0, 0, 5, "shoe", 1)]))
        >>> editor.tell("put", row=0, column="value", text="2")
        >>> editor.sample[0].value
        2
    """
    return _made("editor", "SampleEditor", sample)


def panel(query: Any) -> Any:
    """Watch a deployment: state, rates, lag, stores, dead letters and the last error; stop it and start it again.

    Example:
        >>> from kstreamnb.errors import EngineError
        >>> try:
        ...     panel("a query")
        ... except EngineError as error:
        ...     print(error, *error.__notes__, sep=chr(10))
        a str cannot be watched
        Hint: give what ks.deploy gave
    """
    return _made("panel", "DeployPanel", query)


@extra("notebook")
def _made(module: str, name: str, thing: Any) -> Any:
    """A widget, made by the class that is imported only now."""
    return getattr(import_module(f"kstreamnb.notebook.widgets.{module}"), name)(thing)
