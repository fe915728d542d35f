"""Builds a `Topology` from the DSL ops of a golden spec, through the public DSL alone."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from kstreamnb.core.record import Windowed
from kstreamnb.core.serdes import Serdes
from kstreamnb.core.windows import JoinWindows, SessionWindows, SlidingWindows, TimeWindows, UnlimitedWindows
from kstreamnb.dsl.aggregating import KGroupedTable, SessionWindowedCogroupedKStream
from kstreamnb.dsl.branching import Branched
from kstreamnb.dsl.builder import StreamsBuilder
from kstreamnb.dsl.grouping import CogroupedKStream, SessionWindowedKStream
from kstreamnb.dsl.kstream import KStream
from kstreamnb.dsl.ktable import KTable
from kstreamnb.dsl.options import (
    BufferConfig,
    Consumed,
    EmitStrategy,
    Grouped,
    Joined,
    Materialized,
    Printed,
    Produced,
    Repartitioned,
    StreamJoined,
    Suppressed,
    TableJoined,
)
from kstreamnb.topology.topology import Topology
from tests.golden import fns
from tests.golden.kinds import PROCESSORS
from tests.golden.papi_specs import Router, extractor, global_store, store_spec

__all__ = ["build_dsl", "declare"]

Op = dict[str, Any]
SERDES = {"s": Serdes.string(), "l": Serdes.long()}
_STORE_KINDS = {
    "counter": ("kv", "l"),
    "dedupe": ("kv", "l"),
    "stream": ("kv", "l"),
    "wall": ("kv", "l"),
    "range": ("kv", "s"),
    "window": ("window", "s"),
    "session": ("session", "s"),
    "versioned": ("versioned", "s"),
    "lru": ("lru", "s"),
}

_SUPPLIERS = "dsl.store.suppliers.class"


def build_dsl(spec: dict[str, Any]) -> Topology:
    """Return the topology of a spec with ``nodes``."""
    config = spec.get("config", {})
    explicit = config.get("ensure.explicit.internal.resource.naming") == "true"
    suppliers = config.get(_SUPPLIERS)  # wins over the older setting
    in_memory = config.get("default.dsl.store") == "in_memory" if suppliers is None else "InMemory" in suppliers
    builder = StreamsBuilder(
        ensure_explicit_names=explicit,
        store_type="in_memory" if in_memory else "persistent",
        process_changes_records=config.get("__enable.process.processValue.fix__") == "true",
    )
    declare(builder, spec["nodes"])
    return builder.build(optimize=config.get("topology.optimization", spec.get("optimize", False)))


def declare(builder: StreamsBuilder, ops: list[Op]) -> dict[str, Any]:
    """Apply ops in order; return the handle of every id."""
    specs = Specs(builder)
    for op in ops:
        specs.apply(op)
    return specs.handles


def ms(value: int) -> str:
    """A duration."""
    return f"{value}ms"


def key(value: Any) -> Any:
    """Pass windowed keys to functions as text."""
    return fns.windowed(*value) if isinstance(value, Windowed) else value


def materialized(op: Op, kind: str) -> Materialized | None:
    """Return the options that the materialization fields describe."""
    if op.get("store") is None and not op.get("mat"):
        return None
    options = Materialized(
        op.get("store"),
        SERDES["s"],
        SERDES[kind],
        versioned=ms(op["versioned"]) if "versioned" in op else None,
        retention=ms(op["retention"]) if "retention" in op else None,
        store_type="in_memory" if op.get("mem") else None,
    )
    if "cached" in op:
        options = options.with_caching_enabled() if op["cached"] else options.with_caching_disabled()
    return options.with_logging_disabled() if op.get("logged") is False else options


def consumed(op: Op) -> Consumed:
    """Return how a source reads."""
    return Consumed(
        SERDES["s"], SERDES[op.get("vt", "s")], extractor(op.get("extractor")), op.get("reset"), name=op.get("name")
    )


def grouped(op: Op) -> Grouped:
    """Return serdes and name of a grouping."""
    return Grouped(SERDES["s"], SERDES[op.get("vt", "s")], name=op.get("name"))


class Specs:
    """Applies ops to a builder."""

    def __init__(self, builder: StreamsBuilder) -> None:
        self.builder = builder
        self.handles: dict[str, Any] = {}
        self.added: set[str] = set()

    def apply(self, op: Op) -> None:
        """Declare one op, by the method of its name."""
        made = getattr(self, "op_" + op["op"])(op, self.handles.get(op.get("in", "")))
        if made is not None:
            self.handles[op["id"]] = made

    # --- sources ---------------------------------------------------------------------------------------------------
    def op_stream(self, op: Op, _: Any) -> Any:
        topic = re.compile(op["pattern"]) if op.get("pattern") else op["topic"]
        return self.builder.stream(topic, consumed(op))

    def op_table(self, op: Op, _: Any) -> Any:
        return self.builder.table(op["topic"], consumed(op), materialized=materialized(op, op.get("vt", "s")))

    def op_global(self, op: Op, _: Any) -> Any:
        return self.builder.global_table(op["topic"], consumed(op), materialized=materialized(op, op.get("vt", "s")))

    def op_global_store(self, op: Op, _: Any) -> None:
        self.builder.add_global_store(global_store(op["store"]), op["topic"], PROCESSORS["global"](op), consumed(op))

    # --- one record at a time --------------------------------------------------------------------------------------
    def _filter(self, op: Op, source: Any, method: str) -> Any:
        def predicate(k: Any, v: Any) -> bool:
            return fns.test(op["fn"], key(k), v)

        return getattr(source, method)(predicate, name=op.get("name"), **self._kept(op, source, op.get("vt", "s")))

    def op_filter(self, op: Op, source: Any) -> Any:
        return self._filter(op, source, "filter")

    def op_filter_not(self, op: Op, source: Any) -> Any:
        return self._filter(op, source, "filter_not")

    def op_map_values(self, op: Op, source: Any) -> Any:
        def mapper(k: Any, v: Any) -> Any:
            return fns.map_value(op["fn"], key(k), v)

        kept = self._kept(op, source, result_type(op))
        return source.map_values(mapper, with_key=True, name=op.get("name"), **kept)

    def _kept(self, op: Op, source: Any, kind: str) -> dict[str, Any]:
        return {"materialized": materialized(op, kind)} if isinstance(source, KTable) else {}

    def op_transform_values(self, op: Op, source: Any) -> Any:
        count_in = op.get("count_in")
        stores = (count_in,) if count_in else ()
        if count_in:
            self._add_store(store_spec({"name": count_in, "vt": "l", **_store_fields(op)}))
        return source.transform_values(
            lambda: Transform(count_in, op["fn"]),
            *stores,
            name=op.get("name"),
            **self._kept(op, source, result_type(op)),
        )

    def op_map(self, op: Op, source: Any) -> Any:
        return source.map(lambda k, v: fns.map_pair(op["fn"], k, v), name=op.get("name"))

    def op_flat_map(self, op: Op, source: Any) -> Any:
        return source.flat_map(lambda k, v: fns.flat_map(op["fn"], k, v), name=op.get("name"))

    def op_flat_map_values(self, op: Op, source: Any) -> Any:
        return source.flat_map_values(lambda v: fns.flat_values(op["fn"], v), name=op.get("name"))

    def op_select_key(self, op: Op, source: Any) -> Any:
        return source.select_key(lambda k, v: fns.map_key(op["fn"], k, v), name=op.get("name"))

    def op_peek(self, op: Op, source: Any) -> Any:
        return source.peek(lambda k, v: None, name=op.get("name"))

    def op_foreach(self, op: Op, source: Any) -> None:
        source.foreach(lambda k, v: None, name=op.get("name"))

    def op_print(self, op: Op, source: Any) -> None:
        source.print(Printed(write=lambda line: None, name=op.get("name")))

    def op_merge(self, op: Op, source: Any) -> Any:
        return source.merge(self.handles[op["with"]], name=op.get("name"))

    # --- elsewhere -------------------------------------------------------------------------------------------------
    def op_split(self, op: Op, source: Any) -> None:
        branched = source.split(name=op.get("name"))
        for index, branch in enumerate(op["branches"]):
            fn, name = (branch, None) if isinstance(branch, str) else branch
            branched.branch(self._test(fn), self._into(f"{op['id']}.{index}", name))
        default = op.get("default", False)
        if default:
            branched.default_branch(self._into(f"{op['id']}.d", default if isinstance(default, str) else None))
        else:
            branched.no_default_branch()

    def _test(self, fn: str) -> Callable[[Any, Any], bool]:
        return lambda k, v: fns.test(fn, key(k), v)

    def _into(self, id_: str, name: str | None) -> Branched:
        return Branched.with_consumer(lambda stream: self.handles.__setitem__(id_, stream), name)

    def op_repartition(self, op: Op, source: Any) -> Any:
        options = Repartitioned(
            SERDES["s"], SERDES[op.get("vt", "s")], partitions=op.get("partitions"), name=op.get("name")
        )
        return source.repartition(options)

    def op_to(self, op: Op, source: Any) -> None:
        topic = Router(op["dynamic"]) if op.get("dynamic") else op["topic"]
        source.to(topic, Produced(SERDES["s"], SERDES[op.get("vt", "s")], name=op.get("name")))

    def op_to_table(self, op: Op, source: Any) -> Any:
        return source.to_table(name=op.get("name"), materialized=materialized(op, op.get("vt", "s")))

    def op_to_stream(self, op: Op, source: Any) -> Any:
        mapper: Any = None
        if op.get("fn"):

            def mapper(k: Any, v: Any) -> Any:
                return fns.map_key(op["fn"], key(k), v)
        elif op.get("fmt"):

            def mapper(k: Any, v: Any) -> Any:
                return fns.s(key(k))

        return source.to_stream(mapper, name=op.get("name"))

    def op_process(self, op: Op, source: Any) -> Any:
        return self._process(op, source.process)

    def op_process_values(self, op: Op, source: Any) -> Any:
        return self._process(op, source.process_values)

    def _process(self, op: Op, method: Any) -> Any:
        store, kind = op.get("store", ""), op["kind"]
        names = [store] if store and not op.get("global") else []
        names += op.get("connect", [])
        supplier: Any = PROCESSORS[kind](op)
        if store and kind in _STORE_KINDS and store not in self.added:
            type_, value_type = _STORE_KINDS[kind]
            spec = store_spec({"name": store, "type": op.get("stype", type_), "vt": value_type, **_store_fields(op)})
            self.added.add(store)
            if op.get("own"):
                supplier = WithStores(supplier, spec)
                names.remove(store)
            else:
                self.builder.add_state_store(spec)
        return method(supplier, *names, name=op.get("name"))

    def _add_store(self, spec: Any) -> None:
        if spec.name not in self.added:
            self.added.add(spec.name)
            self.builder.add_state_store(spec)

    # --- grouping and folding --------------------------------------------------------------------------------------
    def op_group_by_key(self, op: Op, source: Any) -> Any:
        return source.group_by_key(grouped(op))

    def op_group_by(self, op: Op, source: Any) -> Any:
        if isinstance(source, KTable):
            return source.group_by(lambda k, v: (fns.map_key(op["fn"], key(k), v), v), grouped(op))
        return source.group_by(lambda k, v: fns.map_key(op["fn"], k, v), grouped(op))

    def op_windowed_by(self, op: Op, source: Any) -> Any:
        windowed = source.windowed_by(windows(op))
        if op.get("emit") != "close" or "Cogrouped" in type(windowed).__name__:  # those have no strategy in Java
            return windowed
        return windowed.emit_strategy(EmitStrategy.on_window_close())

    def op_count(self, op: Op, source: Any) -> Any:
        return source.count(name=op.get("name"), materialized=materialized(op, "l"))

    def op_reduce(self, op: Op, source: Any) -> Any:
        def reducer(a: Any, b: Any) -> Any:
            return fns.reduce(op["fn"], a, b)

        kind = op.get("vt", "s")
        kept = materialized({**op, "mat": True} if op.get("name") else op, kind)
        functions = [reducer]
        if isinstance(source, KGroupedTable):
            functions.append(lambda a, b: fns.reduce("subtract", a, b))
        return source.reduce(*functions, name=op.get("name"), materialized=kept)

    def op_aggregate(self, op: Op, source: Any) -> Any:
        fn = op["fn"]
        functions: list[Any] = [lambda: fns.init(fn)]
        if not isinstance(source, CogroupedKStream) and "Cogrouped" not in type(source).__name__:
            functions.append(lambda k, v, agg: fns.add(fn, key(k), v, agg))
        if isinstance(source, KGroupedTable):
            functions.append(lambda k, v, agg: fns.sub(fn, key(k), v, agg))
        if isinstance(source, SessionWindowedKStream | SessionWindowedCogroupedKStream):
            functions.append(lambda k, a, b: fns.merge(fn, key(k), a, b))
        by_key = source.kind == "grouped"
        kept = materialized({**op, "mat": True} if op.get("name") and by_key else op, result_type(op))
        return source.aggregate(*functions, name=op.get("name"), materialized=kept)

    def op_cogroup(self, op: Op, source: Any) -> Any:
        def adder(fn: str) -> Callable[[Any, Any, Any], Any]:
            return lambda k, v, agg: fns.add(fn, k, v, agg)

        cogrouped = source if source.kind == "cogrouped" else source.cogroup(adder(op["fn"]))
        for other in op.get("others", []):
            id_, fn = (other, op["fn"]) if isinstance(other, str) else other
            cogrouped = cogrouped.cogroup(self.handles[id_], adder(fn))
        return cogrouped

    def op_suppress(self, op: Op, source: Any) -> Any:
        close = op["kind"] == "close"
        buffer = BufferConfig.unbounded()
        if op.get("max") is not None:
            buffer = BufferConfig.max_records(op["max"])
        if op.get("bytes") is not None:
            buffer = buffer.with_max_bytes(op["bytes"]) if "max" in op else BufferConfig.max_bytes(op["bytes"])
        if close or op.get("full") == "shutdown":
            buffer = buffer.shut_down_when_full()
        suppressed = (
            Suppressed.until_window_closes(buffer) if close else Suppressed.until_time_limit(ms(op["ms"]), buffer)
        )
        return source.suppress(suppressed.with_name(op["name"]) if op.get("name") is not None else suppressed)

    # --- joins -----------------------------------------------------------------------------------------------------
    def op_join(self, op: Op, source: Any) -> Any:
        other = self.handles[op["right"]]
        method = getattr(source, {"inner": "join", "left": "left_join", "outer": "outer_join"}[op["how"]])
        if isinstance(source, KTable):
            return self._join_tables(op, method, other)
        with_key = bool(op.get("with_key"))
        joiner = keyed_joiner(op["fn"]) if with_key else plain_joiner(op["fn"])
        serdes = (SERDES["s"], SERDES[op.get("vt", "s")], SERDES[op.get("vt2", "s")])
        if isinstance(other, KStream):
            options = StreamJoined(
                *serdes,
                name=op.get("name"),
                store_name=op.get("store"),
                store_type="in_memory" if op.get("mem") else None,
                logged=op.get("logged", True),
            )
            return method(other, joiner, join_windows(op), options, with_key=with_key)
        if isinstance(other, KTable):
            joined = Joined(*serdes, name=op.get("name"), grace=ms(op["grace"]) if "grace" in op else None)
            return method(other, joiner, joined, with_key=with_key)
        return method(other, lambda k, v: fns.map_key(op["key"], k, v), joiner, with_key=with_key, name=op.get("name"))

    def _join_tables(self, op: Op, method: Any, other: Any) -> Any:
        kept = materialized(op, "s")
        joiner = plain_joiner(op["fn"])
        if op.get("fk") is None:
            return method(other, joiner, name=op.get("name"), materialized=kept)
        foreign_key: Any = lambda v: fns.map_key(op["fk"], None, v)  # noqa: E731
        if op.get("fk_key"):
            foreign_key = lambda k, v: fns.map_key(op["fk"], k, v)  # noqa: E731
        joined = TableJoined(name=op.get("name"))
        return method(
            other, foreign_key, joiner, with_key=bool(op.get("fk_key")), table_joined=joined, materialized=kept
        )


def result_type(op: Op) -> str:
    """Value type of an op's result."""
    return str(op.get("rt", op.get("vt", "s")))


def _store_fields(op: Op) -> Op:
    return {
        name: op[name]
        for name in ("size", "retention", "mem", "dups", "max", "history", "cached", "logged")
        if name in op
    }


def plain_joiner(fn: str) -> Callable[[Any, Any], Any]:
    """A joiner without the key."""
    return lambda a, b: fns.join(fn, None, a, b)


def keyed_joiner(fn: str) -> Callable[[Any, Any, Any], Any]:
    """A joiner with the key."""
    return lambda k, a, b: fns.join(fn, k, a, b)


def windows(op: Op) -> Any:
    """The windows of a windowed_by op."""
    kind, grace = op["kind"], ms(op.get("grace", 0))
    if kind == "unlimited":
        return UnlimitedWindows.of(start=op.get("start", 0))
    if kind == "sliding":
        return SlidingWindows.of_time_difference_and_grace(ms(op["size"]), grace)
    if kind == "session":
        return SessionWindows.of_inactivity_gap_and_grace(ms(op["size"]), grace)
    tumbling = TimeWindows.of_size_and_grace(ms(op["size"]), grace)
    return tumbling.advance_by(ms(op["advance"])) if kind == "hopping" else tumbling


def join_windows(op: Op) -> JoinWindows:
    """The windows of a stream-stream join."""
    before = op.get("before", 0)
    after = op.get("after", before)
    both, grace = ms(max(before, after, 0)), op.get("grace")
    if not op.get("legacy"):
        made = JoinWindows.of(difference=both, grace=ms(grace or 0))
    else:
        made = JoinWindows.of_legacy(both) if grace is None else JoinWindows.of_legacy(both).grace(ms(grace))
    return made.before(ms(before)).after(ms(after))


class WithStores:
    """A supplier that brings its own store."""

    def __init__(self, supplier: Callable[[], Any], spec: Any) -> None:
        self.supplier, self.spec = supplier, spec

    def __call__(self) -> Any:
        return self.supplier()

    def stores(self) -> tuple[Any, ...]:
        return (self.spec,)


class Transform:
    """The transformer of transform_values."""

    def __init__(self, store: str | None, fn: str) -> None:
        self.store_name, self.fn = store, fn
        self.store: Any = None

    def init(self, context: Any) -> None:
        if self.store_name:
            self.store = context.get_state_store(self.store_name)

    def transform(self, k: Any, v: Any) -> Any:
        result = fns.map_value(self.fn, key(k), v)
        if self.store is None:
            return result
        name = fns.s(key(k))
        self.store.put(name, (self.store.get(name) or 0) + 1)
        return f"{fns.s(result)}#{self.store.get(name)}"
