"""One example of every display: what tests of displays go through, so that new displays are tested as well."""

from __future__ import annotations

import importlib
import pkgutil
import sys
from typing import Any

import kstreamnb as ks
from kstreamnb import course
from kstreamnb.display.diff import diff
from kstreamnb.display.mime import data_of, picture_of
from kstreamnb.display.parser import parse_description
from kstreamnb.notebook.widgets.base import FactsWidget
from kstreamnb.spark.query.query_status import QueryStatus
from kstreamnb.spark.telemetry.metrics import Metric, Metrics
from kstreamnb.spark.telemetry.query_charts import query_charts
from kstreamnb.spark.telemetry.query_cost import query_cost
from kstreamnb.tools.parity import EngineOutcome, Parity
from kstreamnb.validation.output_diff import diff as output_diff

NOT_HERE = {
    "DeployPanel": "it needs a running query: tests/browser/test_panel.py",
    "StatusLine": "it is a line of text, shown while something runs: tests/browser/test_bars.py",
    "QuestionForm": "it is the display of a prediction",
    "Query": "it displays as the table of its status",
    "GraphPicture": "it is what pictures are drawn from",
    "StoreView": "it displays as the table that it holds now",
    "FactsWidget": "it is the base of the widgets",
    "GraphWidget": "it is the base of the widgets with a graph",
    "Displayed": "it is the base of displays",
    "object": "it has no display",
}
"""Classes with a display of which there is no example here, with the reason."""

_TEXT = """
topic   | key | value                                    | time
orders  | o1  | {"who": "ann", "pieces": 2, "note": "as a present, with a card"} | 0
orders  | o2  | {"who": "bob", "pieces": 1, "note": ""}  | 65000
orders  | o3  | {"who": "ann", "pieces": 4, "note": ""}  | 30000
orders  | o4  | {"who": "cyd", "pieces": 1, "note": ""}  | 7200000
orders  | o5  | {"who": "ann", "pieces": 9, "note": ""}  | 1000
parcels | o2  | {"weight": 3}                            | 70000
"""


def builder(sample: ks.Sample | None = None) -> ks.StreamsBuilder:
    """A shop with two sub-topologies, a windowed count that drops a late record, and a join of streams."""
    made = ks.StreamsBuilder("shop")
    orders = made.stream("orders")
    windows = ks.TimeWindows.of_size_and_grace("1m", "10s")
    counts = orders.group_by(lambda key, order: order["who"]).windowed_by(windows).count(store="per-customer")
    counts.to_stream(lambda window, count: window.key).to("counts", value_serde="long")
    within = ks.JoinWindows.of_time_difference_and_grace("5m", "0s")
    orders.join(made.stream("parcels"), lambda order, parcel: {**order, **parcel}, within).to("sent")
    made.sample = sample or ks.Sample.from_text(_TEXT)
    return made


def displays(made: ks.StreamsBuilder | None = None) -> dict[str, Any]:
    """Return an example of each static display, by a short name; of another shop if one is given."""
    made = made or builder()
    topology, sample = made.build(), made.sample
    assert isinstance(sample, ks.Sample)
    run = ks.replay(topology, sample, partitions=2)
    driver = ks.TopologyTestDriver(topology)
    driver.pipe(sample)
    other = ks.Topology("copies").add_source("in", "orders").add_sink("out", "copies", "in")
    return {
        "sample": sample,
        "sample description": sample.describe(),
        "sample statistics": sample.statistics(),
        "builder": made,
        "preview": _preview(sample),
        "topology": topology,
        "description": parse_description(topology.describe()),
        "difference of topologies": diff(topology.description(), other.description()),
        "replay": run,
        "step": run.steps[0],
        "snapshot": run.now,
        "store": run.now.store("per-customer"),
        "difference of states": run.diff(0, len(run.steps)),
        "profile": run.profile(),
        "timeline": run.timeline("per-customer"),
        "explanations": run.why_dropped(),
        "explanation": run.why_no_output("counts"),
        "provenance": run.provenance(run.output("counts")[0]),
        "trace": run.record("orders", 0, 0).trace(),
        "log": _log(),
        "output": run.output("counts"),
        "drops": run.drops,
        "optimizations": _optimized().explain(),
        "no optimizations": topology.explain(),
        "records": made.sample,
        "driver": driver,
        "cost": query_cost(topology, _metrics()),
        "charts": query_charts("shop", [], [(1000, 9), (2000, 7)]),
        "metrics": Metrics(_metrics()),
        "status": QueryStatus("running", 3, 0, {"orders": {0: 2}}, application="shop", metrics=tuple(_metrics())),
        "parity": _parity({"counts": run.output("counts")}),
        "check": ks.testing.check(topology, partitions={"orders": 4, "parcels": 2}),
        "settings": ks.config_report({"num.stream.threads": 4}),
        "plan": ks.plan(topology, partitions=4),
        "course picture": course.picture("count"),
        "wrong answer": course.check("count.1", [("x", 1)]),
        "right answer": course.check("count.1", [("x", 1), ("y", 1), ("x", 2), ("y", 2)]),
        "comparison": course.compare("count.updates", 4),
    }


def widgets(made: ks.StreamsBuilder | None = None) -> dict[str, Any]:
    """Return an example of each widget, by a short name; of another shop if one is given."""
    made = made or builder()
    topology, sample = made.build(), made.sample
    assert isinstance(sample, ks.Sample)
    run = ks.replay(topology, sample)
    return {
        "explorer": ks.widgets.explorer(run),
        "painted explorer": ks.widgets.explorer(run.profile()),
        "stepper": ks.widgets.stepper(run),
        "browser": ks.widgets.browse(run.now.store("per-customer")),
        "browser of an output": ks.widgets.browse(run.output("counts")),
        "browser of drops": ks.widgets.browse(run.drops),
        "browser of a sample": ks.widgets.browse(sample),
        "editor": ks.widgets.edit(sample),
        "question with a number": course.predict("count.updates"),
        "question with options": course.predict("count.pieces"),
    }


def without_example() -> list[str]:
    """Return the classes with a display of which there is no example, and no reason for that."""
    for module in pkgutil.walk_packages(ks.__path__, "kstreamnb."):
        if not module.name.startswith("kstreamnb.cli"):
            importlib.import_module(module.name)
    shown = [*displays().values(), *widgets().values()]
    shown_types = {each for thing in shown for each in type(thing).__mro__}
    found = {*data_of.registry, *picture_of.registry}
    for name, module_of in list(sys.modules.items()):
        own = [each for each in vars(module_of).values() if isinstance(each, type) and each.__module__ == name]
        if name.startswith("kstreamnb."):
            found |= {each for each in own if {"_repr_mimebundle_", "_repr_html_"} & vars(each).keys()}
            found |= {each for each in own if issubclass(each, FactsWidget)}
    return sorted(each.__name__ for each in found - shown_types if each.__name__ not in NOT_HERE)


def _parity(outputs: dict[str, list[ks.TopicRecord]]) -> Parity:
    """Return a comparison in which Spark has written nothing."""
    outcomes = (EngineOutcome("driver", outputs), EngineOutcome("Spark", {"counts": []}))
    return Parity("6 records", outcomes, {"Spark": output_diff(outputs, {"counts": []})})


def _preview(sample: ks.Sample) -> object:
    """Return the first changes of a table."""
    return ks.StreamsBuilder("preview").table("orders").head(sample)


def _optimized() -> ks.Topology:
    """Return a topology in which two counts share a repartition topic, and a table's topic is its changelog."""
    made = ks.StreamsBuilder("optimized")
    by_name = made.stream("orders").select_key(lambda key, order: order["who"])
    for name in ("orders-of", "again"):
        by_name.group_by_key().count(store=name)
    made.table("prices", store="prices")
    return made.build(optimize=True)


def _log() -> object:
    """Return the offsets of a topic after a transaction."""
    log = ks.simulation.Log()
    log.create_topic("logins", partitions=2)
    log.append("logins", "tom", "in", at=1_000)
    return log


def _metrics() -> list[Metric]:
    found = []
    for task, records, ms in (("0_0", 100.0, 0.1), ("1_0", 60.0, 1.0), ("1_1", 30.0, 1.0)):
        tags = (("application-id", "shop"), ("task-id", task))
        found += [Metric("stream-task-metrics", "process-total", tags, records)]
        found += [Metric("stream-task-metrics", "process-latency-avg", tags, ms)]
        if task != "0_0":
            stored = (*tags, ("in-memory-state-id", "per-customer"))
            found += [Metric("stream-state-metrics", "changelog-updates-total", stored, records)]
            found += [Metric("stream-state-metrics", "num-keys", stored, 2.0)]
    return found
