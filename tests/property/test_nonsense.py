"""Nonsense arguments: every public call returns, raises the kit's error, or a TypeError of the call itself.

A TypeError of the call itself reports missing or surplus arguments; it has no frame of the kit. Everything that a call
declares is built afterwards, so that nonsense is refused then at the latest, with the user's line.
"""

from __future__ import annotations

import functools
import inspect
import re
import traceback
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import kstreamnb as ks
from kstreamnb.source_location import PACKAGE
from kstreamnb.tools.store_server import LocalServer

CALLS, QUICK, SLOW = 40, 12, 240
"""Calls in each run, and runs of each of the 26 targets: 12,480 calls by default, 249,600 with ``-m slow``."""


class Shop:
    """One handle of every kind, created for each run."""

    def __init__(self) -> None:
        self.builder = builder = ks.StreamsBuilder("shop")
        self.stream = stream = builder.stream("orders")
        self.table = builder.table("prices", store="prices")
        self.global_table = builder.global_table("rates")
        self.split = stream.split(name="by-")
        self.grouped = grouped = stream.group_by_key()
        self.grouped_table = self.table.group_by(lambda key, value: (value, key))
        self.windowed = grouped.windowed_by(ks.TimeWindows.of(size="1h"))
        self.sessions = grouped.windowed_by(ks.SessionWindows.of(gap="1h"))
        self.cogrouped = grouped.cogroup(lambda key, value, total: total)
        self.windowed_cogroup = self.cogrouped.windowed_by(ks.TimeWindows.of(size="1h"))
        self.session_cogroup = self.cogrouped.windowed_by(ks.SessionWindows.of(gap="1h"))
        self.topology = ks.Topology().add_source("in", "orders").add_processor("p", Passing, "in")
        self.topology.add_sink("out", "copies", "p")
        self.sample = ks.Sample.from_text("topic | key | value\norders | a | 1\norders | b | 2")
        stores = ks.StreamsBuilder()
        stores.stream("orders").group_by_key().count(store="counts").to_stream().to("out")
        self.driver = ks.TopologyTestDriver(stores.build())
        self.input, self.output = self.driver.create_input_topic("orders"), self.driver.create_output_topic("out")

    def handles(self) -> list[object]:
        """Candidate arguments."""
        return [
            self.builder, self.stream, self.table, self.global_table, self.grouped, self.grouped_table, self.windowed,
            self.topology, self.sample,
        ]  # fmt: skip


class Passing(ks.Processor[Any, Any, Any, Any]):
    """Passes records on."""

    def process(self, record: ks.Record[Any, Any]) -> None:
        """Pass it on."""
        self.context.forward(record)


def public_classes(*names: str) -> list[type]:
    """Public classes by name."""
    return [getattr(ks, name) for name in names]


OPTIONS = public_classes(
    "Consumed", "Produced", "Grouped", "Joined", "StreamJoined", "TableJoined", "Repartitioned", "Branched", "Printed",
    "EmitStrategy", "Materialized", "BufferConfig", "Suppressed", "Named",
)  # fmt: skip
WINDOWS = public_classes("TimeWindows", "SlidingWindows", "SessionWindows", "JoinWindows", "UnlimitedWindows")
WINDOW_VALUES = [
    ks.TimeWindows.of(size="1h"), ks.SlidingWindows.of(difference="1h"), ks.SessionWindows.of(gap="1h"),
    ks.JoinWindows.of(difference="1h"), ks.UnlimitedWindows.of(),
]  # fmt: skip
SPECS = [
    ks.Stores.in_memory_key_value_store("kv"),
    ks.Stores.persistent_window_store("window", retention="1h", window_size="1m"),
    ks.Stores.persistent_session_store("session", retention="1h"),
    ks.Stores.persistent_versioned_key_value_store("versioned", history="1h"),
]
OPTION_VALUES = [
    ks.Consumed(), ks.Produced(), ks.Grouped(name="g"), ks.Joined(), ks.StreamJoined(), ks.TableJoined(),
    ks.Repartitioned(), ks.Branched(), ks.Printed(), ks.EmitStrategy.on_window_close(), ks.Materialized("m"),
    ks.BufferConfig(), ks.Suppressed.until_window_closes(), ks.Named.as_("n"),
]  # fmt: skip
NONSENSE: list[object] = [
    None, True, False, 0, 1, -1, 5, 2**70, 1.5, float("nan"), float("inf"), "", "orders", "counts", "1h", "-1h", "long",
    "a b", "na\u2011me", "\ud800", "x" * 300, ".", "earliest", "in_memory", b"", b"x", [], ["orders"], [5], [None], {},
    {"a": 1}, {5: 5}, (), ("a", 1), {"a", "b"}, frozenset(), object(), object, int, str, dict, Passing, Passing(),
    len, print, iter([]), re.compile("ord.*"), timedelta(minutes=5), timedelta(microseconds=1),
    datetime(2026, 1, 1, tzinfo=UTC), datetime.fromisoformat("2026-01-01"), ValueError("nonsense"),
    range(3), ..., NotImplemented,
    lambda: None, lambda value: value, lambda key, value: value, lambda key, value: (key, value),
    lambda key, value, third: value, lambda *arguments: arguments, ks.Serdes.long(), ks.Serdes.json(),
    ks.Record("a", 1, 0), ks.Windowed("a", 0, 1), ks.TopicRecord("orders", 0, 0, 0, "a", 1),
    *WINDOW_VALUES, *SPECS, *OPTION_VALUES,
]  # fmt: skip


NOT_CALLED = {
    "close": "ends the driver of the other calls",
    "declare": "called by methods of the DSL only",
    "where": "calls the given function, whose errors are the user's",
    "windows_for": "called for each record: it checks nothing",
    "to_file": "writes a file of any name",
    "to_json_lines": "writes a file of any name",
    "to_parquet": "writes a file of any name",
    "export": "writes a file of any name",
    "log_to": "writes a file of any name",
    "capture": "waits for a broker",
    "reset": "waits for a broker",
    "LocalBroker": "downloads and starts a broker",
    "local_broker": "downloads and starts a broker",
}


def methods_of(thing: object) -> Iterator[tuple[str, Callable[..., object]]]:
    """Return the public methods of an object, or those of a class that need no instance."""
    for name in dir(thing):
        if not name.startswith("_") and name not in NOT_CALLED and not hasattr(str, name):
            method = inspect.getattr_static(thing, name)
            bound = not isinstance(thing, type) or isinstance(method, classmethod | staticmethod)
            if bound and not isinstance(method, property) and callable(getattr(thing, name)):
                yield name, getattr(thing, name)


def methods(*things: object) -> list[tuple[str, Callable[..., object]]]:
    """The public methods of several objects."""
    return [(f"{type(thing).__name__}.{name}", method) for thing in things for name, method in methods_of(thing)]


def constructors(classes: list[type]) -> list[tuple[str, Callable[..., object]]]:
    """Classes and the calls that create their instances."""
    return [(kind.__name__, kind) for kind in classes] + [
        (f"{kind.__name__}.{name}", method) for kind in classes for name, method in methods_of(kind)
    ]


TARGETS: dict[str, Callable[[Shop], list[tuple[str, Callable[..., object]]]]] = {
    "builder": lambda shop: [("StreamsBuilder", ks.StreamsBuilder), *methods(shop.builder)],
    "streams": lambda shop: methods(shop.stream, shop.split),
    "tables": lambda shop: methods(shop.table, shop.global_table),
    "groups": lambda shop: methods(shop.grouped, shop.grouped_table, shop.cogrouped),
    "windowed": lambda shop: methods(shop.windowed, shop.sessions, shop.windowed_cogroup, shop.session_cogroup),
    "options": lambda shop: [*constructors(OPTIONS), *methods(*OPTION_VALUES[:-1])],
    "windows": lambda shop: [*constructors([*WINDOWS, ks.Stores, ks.Serdes]), *methods(*WINDOW_VALUES)],
    "topology": lambda shop: [("Topology", ks.Topology), *methods(shop.topology)],
    "sample": lambda shop: [*constructors([ks.Sample]), *methods(shop.sample)],
    "driver": lambda shop: (
        [("TopologyTestDriver", ks.TopologyTestDriver), *methods(shop.driver, shop.input, shop.output)]
    ),
    "sinks": lambda shop: [
        ("DatabaseSink", ks.spark.DatabaseSink),
        ("ParquetSink", ks.spark.ParquetSink),
        ("FunctionSink", ks.spark.FunctionSink),
        ("FrameSink", ks.spark.FrameSink),
    ],
    "settings": lambda shop: [
        ("Config", ks.Config),
        ("read_config", ks.read_config),
        ("plan", ks.plan),
        ("Record", ks.Record),
        ("alerts", ks.monitoring.alerts),
    ],
    "cluster": lambda shop: cluster_calls(),
    "group": lambda shop: group_calls(),
    "log": lambda shop: log_calls(),
    "replay": lambda shop: methods(replayed()),
    "timeline": lambda shop: [nearly(replayed().timeline, by="key"), nearly(replayed().why_dropped, topic="orders")],
    "runs": lambda shop: [nearly(ks.replay, counting(), ORDERS), *functions(ks.replay, ks.head, ks.parse_description)],
    "engines": lambda shop: engine_calls(),
    "deployments": lambda shop: functions(*namespace(ks.spark), ks.deploy, ks.run, ks.adopt, ks.config_report),
    "testing": lambda shop: [*functions(*namespace(ks.testing)), *methods(ks.testing.MockProcessorContext())],
    "tests": lambda shop: checking_calls(),
    "kafka": lambda shop: functions(*namespace(ks.kafka)),
    "monitoring": lambda shop: [*functions(*namespace(ks.monitoring)), nearly(ks.monitoring.serve, shop.driver)],
    "course": lambda shop: functions(*namespace(ks.course)),
    "widgets": lambda shop: functions(*namespace(ks.widgets), *namespace(ks.notebook)),
}
ORDERS = ks.Sample.from_text("topic | key | value\norders | a | 1\norders | b | 2\norders | a | 3")


def namespace(module: object) -> list[Callable[..., object]]:
    """The public calls of a namespace."""
    return [getattr(module, name) for name in module.__all__ if name not in NOT_CALLED]  # type: ignore[attr-defined]


def functions(*calls: Callable[..., object]) -> list[tuple[str, Callable[..., object]]]:
    """Functions and classes with their names."""
    return [(call.__name__, call) for call in calls]


def nearly(call: Callable[..., object], *args: object, **keywords: object) -> tuple[str, Callable[..., object]]:
    """A call with good arguments, to which nonsense is added or which it replaces."""
    return call.__name__, functools.partial(call, *args, **keywords)


def counting(name: str = "counting") -> ks.Topology:
    """A topology with a store and an output."""
    builder = ks.StreamsBuilder(name)
    builder.stream("orders").group_by_key().count(store="counts").to_stream().to("out")
    return builder.build()


def replayed() -> ks.Replay:
    """A run of three records."""
    return ks.replay(counting(), ORDERS)


def cluster_calls() -> list[tuple[str, Callable[..., object]]]:
    """A simulated cluster and one of its applications."""
    cluster = ks.simulation.ClusterDriver(counting())
    more = [nearly(ks.simulation.ClusterDriver, counting()), nearly(cluster.add_application, counting("third"))]
    return [*more, *functions(ks.simulation.ClusterDriver), *methods(cluster, cluster.add_application(counting("two")))]


def group_calls() -> list[tuple[str, Callable[..., object]]]:
    """A simulated consumer group with a member."""
    group = ks.simulation.ConsumerGroup("group", {"orders": 3})
    group.join("orders")
    more = [nearly(ks.simulation.ConsumerGroup, "group", {"orders": 3}), nearly(group.poll, "orders")]
    return [*more, *functions(ks.simulation.ConsumerGroup), *methods(group)]


def log_calls() -> list[tuple[str, Callable[..., object]]]:
    """A simulated log with a topic, its producer and its reader."""
    log = ks.simulation.Log()
    log.create_topic("orders", partitions=2)
    log.append("orders", "a", "1")
    more = [
        nearly(log.append, "orders", "a", "1"),
        nearly(log.producer().send, "orders", "a", "1"),
        nearly(log.producer),
    ]
    made = methods(log, log.producer(), log.reader("orders"))
    return [*more, *functions(ks.simulation.Log, ks.simulation.create_topic), *made]


def engine_calls() -> list[tuple[str, Callable[..., object]]]:
    """Return the calls that run a topology on Spark, with sufficient arguments."""
    place = {"bootstrap_servers": "localhost:1", "checkpoint": "checkpoint"}
    return [
        nearly(ks.run, counting(), inputs=ORDERS),
        nearly(ks.deploy, counting(), **place),
        nearly(ks.adopt, counting(), "shop", checkpoint="checkpoint", bootstrap_servers={}),
        nearly(ks.Sample.capture, {}),
        nearly(ks.kafka.reset, {}),
        nearly(ks.plan, counting()),
        nearly(ks.testing.parity, counting(), ORDERS),
        nearly(ks.spark.read_store, counting(), "counts", "checkpoint"),
        nearly(ks.spark.rescale, "checkpoint", 2),
    ]


def checking_calls() -> list[tuple[str, Callable[..., object]]]:
    """Return the calls that look at a topology, with sufficient arguments."""
    return [
        nearly(ks.testing.check, counting(), sample=ORDERS),
        nearly(ks.testing.check_partitions, counting(), {"orders": 2}),
        nearly(ks.testing.diff, counting(), counting()),
        nearly(ks.testing.find_races, counting(), ORDERS, schedules=2),
        nearly(ks.testing.samples, counting(), ORDERS),
        nearly(ks.testing.counterexample, counting(), ORDERS, len, examples=2),
        nearly(ks.testing.assert_outputs_equal, ORDERS, ORDERS),
        nearly(ks.testing.benchmark, seconds=1),
        nearly(ks.head, counting, ORDERS),
        nearly(ks.monitoring.scaling_decision, [(), ()], instances=1, partitions=2),
        nearly(ks.kafka.connect_config, "out", "sink", url="jdbc:x", key_column="id"),
    ]


def arguments_of(call: Callable[..., object]) -> list[str]:
    """Keywords that a call accepts, and one that it does not."""
    try:
        parameters = inspect.signature(call).parameters.values()
    except (TypeError, ValueError):
        return ["nonsense"]
    return [
        "nonsense",
        *(each.name for each in parameters if each.kind in (each.KEYWORD_ONLY, each.POSITIONAL_OR_KEYWORD)),
    ]


def is_allowed(error: Exception) -> bool:
    """Return whether an error is the kit's, or a TypeError of the call itself without frames of the kit."""
    if isinstance(error, ks.KStreamError):
        return True
    files = [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
    return isinstance(error, TypeError) and not any(file.startswith(PACKAGE) for file in files)


def attempt(shown: str, call: Callable[..., object], *args: object, **keywords: object) -> None:
    """Call; lazily iterated results are not consumed, and servers are closed."""
    try:
        result = call(*args, **keywords)
        if isinstance(result, LocalServer):
            result.close()
    except Exception as error:
        if not is_allowed(error):
            raise AssertionError(f"{shown} raised {type(error).__name__}: {error}") from error


def fuzz(target: str, runs: int) -> None:
    """Call what a target has with nonsense, from fixed seeds."""

    @settings(
        max_examples=runs, derandomize=True, database=None, deadline=None, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(data=st.data())
    def run(data: st.DataObject) -> None:
        shop = Shop()
        calls = TARGETS[target](shop)
        pool = [*NONSENSE, *shop.handles()]
        chooser = data.draw(st.randoms(use_true_random=False))
        for _ in range(CALLS):
            name, call = chooser.choice(calls)
            args = [chooser.choice(pool) for _ in range(chooser.choice((0, 1, 1, 2, 2, 3, 4)))]
            names = arguments_of(call)
            keywords = {chooser.choice(names): chooser.choice(pool) for _ in range(chooser.choice((0, 0, 1, 2)))}
            shown = f"{name}({', '.join([*map(ascii, args), *(f'{k}={v!a}' for k, v in keywords.items())])})"
            attempt(shown, call, *args, **keywords)
        attempt("build()", shop.builder.build)

    run()


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty folder without Java: nothing that passes all checks starts Spark."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))


@pytest.mark.usefixtures("nowhere")
@pytest.mark.parametrize("target", TARGETS)
def test_nonsense_is_refused_in_words(target: str) -> None:
    """Every call returns, raises the kit's error, or a TypeError of the call itself."""
    fuzz(target, QUICK)


@pytest.mark.slow
@pytest.mark.usefixtures("nowhere")
@pytest.mark.parametrize("target", TARGETS)
def test_much_nonsense_is_refused_in_words(target: str) -> None:
    """The same with 20 times as many calls."""
    fuzz(target, SLOW)
