"""The processors of the golden format (README, section 5): a supplier for each kind, made from its op."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kstreamnb.core.processor import Processor, PunctuationType
from kstreamnb.core.record import AggregationWithHeaders, Record, ValueTimestampHeaders, Windowed
from tests.golden import fns
from tests.golden.fns import s

__all__ = ["PROCESSORS", "Boom"]


class Boom(RuntimeError):
    """The error that the processor "boom" raises."""


class Kind(Processor[Any, Any, Any, Any]):
    """One processor of the library: ``op`` says which."""

    def __init__(self, op: dict[str, Any]) -> None:
        self.op = op
        self.mode = op.get("mode", "")
        self.every = op.get("every", 10)

    def init(self, context: Any) -> None:
        """Get the store, and start punctuators."""
        super().init(context)
        self.store = context.get_state_store(self.op["store"]) if self.op.get("store") else None
        self.start()

    def start(self) -> None:
        """Act once at the start."""

    def process(self, record: Record[Any, Any]) -> None:
        """Ignore records without a key where there is a store."""
        if record.key is not None or self.store is None:
            self.take(record)

    def take(self, record: Record[Any, Any]) -> None:
        """Act on a record."""
        self.context.forward(record)

    def schedule(self, callback: Callable[[int], None], *, wall: bool) -> Any:
        """Schedule a punctuator as the op says."""
        kind = PunctuationType.WALL_CLOCK_TIME if wall else PunctuationType.STREAM_TIME
        return self.context.schedule(f"{self.every}ms", kind, callback, start=self.op.get("start"))


class Drop(Kind):
    def take(self, record: Any) -> None:
        pass


class BoomOnA(Kind):
    def take(self, record: Any) -> None:
        if fns.test("starts_a", record.key, record.value):
            raise Boom("boom")
        self.context.forward(record)


class Fanout(Kind):
    def take(self, record: Any) -> None:
        self.context.forward(record.with_value(s(record.value) + "1"))
        self.context.forward(record.with_value(s(record.value) + "2"))


class Route(Kind):
    def take(self, record: Any) -> None:
        children = self.op["children"]
        self.context.forward(record, children[0 if fns.test("even", record.key, record.value) else 1])


class Retime(Kind):
    def take(self, record: Any) -> None:
        self.context.forward(record.with_timestamp(record.timestamp + self.every))


class Header(Kind):
    def take(self, record: Any) -> None:
        headers = record.headers
        if self.mode == "clear":
            headers = ()
        elif self.mode == "remove":
            headers = tuple(header for header in headers if header[0] != "h")
        else:
            headers = (*headers, ("h", s(record.value).encode()))
        self.context.forward(record.with_headers(headers))


class Times(Kind):
    def take(self, record: Any) -> None:
        times = f"@{self.context.current_stream_time_ms()}/{self.context.current_system_time_ms()}"
        self.context.forward(record.with_value(s(record.value) + times))


class Meta(Kind):
    def take(self, record: Any) -> None:
        meta = self.context.record_metadata()
        place = "none" if meta is None else f"{s(meta.topic)}/{meta.partition}/{meta.offset}"
        self.context.forward(record.with_value(f"{s(record.value)}@{place}"))


class Tick(Kind):
    def start(self) -> None:
        self.fired = 0
        self.job = self.schedule(self.tick, wall=self.mode == "wall")

    def take(self, record: Any) -> None:
        if self.mode != "quiet":
            self.context.forward(record)

    def tick(self, now: int) -> None:
        context = self.context
        value = f"t{now}/{context.current_stream_time_ms()}/{context.current_system_time_ms()}"
        context.forward(Record("tick", value, max(now, 0)))
        self.fired += 1
        if self.fired >= self.op.get("times", 1 << 62):
            self.job.cancel()


class Flush(Kind):
    """Kinds "stream" and "wall"."""

    def start(self) -> None:
        self.schedule(self.flush, wall=self.op["kind"] == "wall" or self.mode == "wall")

    def take(self, record: Any) -> None:
        self.store.put(record.key, (self.store.get(record.key) or 0) + 1)

    def flush(self, now: int) -> None:
        for key, count in list(self.store.all()):
            self.context.forward(Record(key, f"n{count}", now))
            self.store.delete(key)


class Counter(Kind):
    def take(self, record: Any) -> None:
        count = (self.store.get(record.key) or 0) + 1
        self.store.put(record.key, count)
        self.context.forward(record.with_value(f"c{count}"))


class Dedupe(Kind):
    def take(self, record: Any) -> None:
        if self.store.get(record.key) is None:
            self.store.put(record.key, 1)
            self.context.forward(record)


class Lookup(Kind):
    def take(self, record: Any) -> None:
        found = self.store.get(record.key)
        self.context.forward(record.with_value(f"{s(record.value)}~{s(value_of(found))}"))


class Lru(Kind):
    def take(self, record: Any) -> None:
        old = self.store.get(record.key)
        self.store.put(record.key, None if record.value is None else s(record.value))
        self.context.forward(record.with_value(f"{s(old)}>{s(record.value)}"))


class Range(Kind):
    def take(self, record: Any) -> None:
        key, store = record.key, self.store
        if record.value is None:
            store.delete(key)
        else:
            store.put(key, s(record.value))
        rows = {
            "reverse_all": store.reverse_all,
            "from": lambda: store.range(key, None),
            "to": lambda: store.range(None, key),
            "reverse_from": lambda: store.reverse_range(key, None),
            "prefix": lambda: store.prefix_scan(key),
        }.get(self.mode, store.all)()
        self.context.forward(record.with_value(",".join(f"{k}={s(value_of(v))}" for k, v in rows)))


class Window(Kind):
    def take(self, record: Any) -> None:
        key, at = record.key, record.timestamp
        self.store.put(key, None if record.value is None else s(record.value), at)
        fetch = self.store.backward_fetch if self.mode == "backward" else self.store.fetch_between
        rows = fetch(key, max(0, at - self.every), at + self.every)
        self.context.forward(record.with_value(",".join(f"{start}={s(value)}" for start, value in rows)))


class Session(Kind):
    def take(self, record: Any) -> None:
        key, start, end, text = record.key, record.timestamp, record.timestamp, ""
        for session, value in list(self.store.find_sessions(key, start - self.every, start + self.every)):
            start, end, text = min(start, session.start), max(end, session.end), f"{text}{value}+"
            self.store.remove(session)
        text += s(record.value)
        self.store.put(Windowed(key, start, end), text)
        self.context.forward(record.with_value(f"{text}@{start}/{end}"))


class Versioned(Kind):
    def take(self, record: Any) -> None:
        key, at = record.key, record.timestamp
        code = self.store.put(key, None if record.value is None else s(record.value), at)
        now, was = version(self.store.get(key)), version(self.store.get(key, at - self.every))
        self.context.forward(record.with_value(f"put={code},now={now},was={was}"))


class WithHeaders(Kind):
    """Base of the kinds "hkv", "hwindow" and "hsession"."""

    def kept(self, record: Any) -> Any:
        """The headers to keep: those of the record, or by mode none or one more."""
        if self.mode in ("bare", "null"):
            return ()
        return (*record.headers, ("more", b"\1")) if self.mode == "more" else record.headers


class KeyValueWithHeaders(WithHeaders):
    def take(self, record: Any) -> None:
        key, store, value = record.key, self.store, record.value
        row = ValueTimestampHeaders(s(value), record.timestamp + self.every, self.kept(record))
        old, got, row = store.get(key), None, None if value is None else row
        if self.mode == "absent":
            got = store.put_if_absent(key, row)
        elif self.mode == "all":
            store.put_all([(key, row), (f"{key}2", row)])
        elif self.mode == "delete" and value is None:
            got = store.delete(key)
        else:
            store.put(key, row)
        rows = [store.all, store.reverse_all]
        if self.mode == "range":
            rows = [
                lambda: store.range(key, None),
                lambda: store.reverse_range(None, key),
                lambda: store.prefix_scan(key),
            ]
        listed = "" if self.op.get("quiet") else "|".join(row_texts(read()) for read in rows)
        text = f"{row_text(old)}>{row_text(got)}|{row_text(store.get(key))}|{listed}"
        self.context.forward(record.with_value(text))


class WindowWithHeaders(WithHeaders):
    def take(self, record: Any) -> None:
        key, store, at = record.key, self.store, record.timestamp
        start = at - at % self.every
        row = ValueTimestampHeaders(s(record.value), at + 1, self.kept(record))
        store.put(key, None if record.value is None else row, start)
        rows = (
            store.fetch_between(key, 0, at),
            store.backward_fetch(key, 0, at),
            store.fetch_all(0, at),
            store.fetch_keys("a", "z", 0, at),
        )
        self.context.forward(record.with_value("|".join([row_text(store.fetch(key, start)), *map(row_texts, rows)])))


class SessionWithHeaders(WithHeaders):
    def take(self, record: Any) -> None:
        key, store, start, end, text = record.key, self.store, record.timestamp, record.timestamp, ""
        headers: tuple[Any, ...] = ()
        for session, row in list(store.find_sessions(key, start - self.every, start + self.every)):
            start, end, text = min(start, session.start), max(end, session.end), f"{text}{row.aggregation}+"
            headers += row.headers
            if self.mode == "put_null":
                store.put(session, None)
            else:
                store.remove(session)
        row = AggregationWithHeaders(text + s(record.value), headers + self.kept(record))
        store.put(Windowed(key, start, end), row)
        rows = (
            store.fetch(key),
            store.backward_fetch("a", "z"),
            store.find_sessions_between("a", "z", 0, record.timestamp),
        )
        shown = row_text(store.fetch_session(key, start, end))
        self.context.forward(record.with_value("|".join([shown, *map(row_texts, rows)])))


class Keep(Kind):
    """Keeps a global or read-only store."""

    def take(self, record: Any) -> None:
        self.store.put(record.key, None if record.value is None else f"{record.value}^")


def row_text(row: Any) -> str:
    """A row with headers as Java's recorder writes it."""
    if row is None:
        return "null"
    headers = ",".join(f"{name}={'null' if data is None else data.decode()}" for name, data in row.headers)
    if isinstance(row, ValueTimestampHeaders):
        return f"{row.value}@{row.timestamp}[{headers}]"
    assert isinstance(row, AggregationWithHeaders)
    return f"{row.aggregation}[{headers}]"


def row_texts(rows: Any) -> str:
    """Rows with their keys."""
    return ";".join(f"{key}={row_text(row)}" for key, row in rows)


def value_of(row: Any) -> Any:
    """The value of a row that may carry a timestamp."""
    return row.value if hasattr(row, "timestamp") else row


def version(found: Any) -> str:
    """Text of a version."""
    if found is None:
        return "null"
    return f"{found.value}@{found.timestamp}/{'-' if found.valid_to is None else found.valid_to}"


_KINDS: dict[str, type[Kind]] = {
    "pass": Kind,
    "drop": Drop,
    "boom": BoomOnA,
    "fanout": Fanout,
    "route": Route,
    "retime": Retime,
    "header": Header,
    "times": Times,
    "meta": Meta,
    "tick": Tick,
    "stream": Flush,
    "wall": Flush,
    "counter": Counter,
    "dedupe": Dedupe,
    "lookup": Lookup,
    "lru": Lru,
    "range": Range,
    "window": Window,
    "session": Session,
    "versioned": Versioned,
    "hkv": KeyValueWithHeaders,
    "hwindow": WindowWithHeaders,
    "hsession": SessionWithHeaders,
    "global": Keep,
}


def _supplier_of(kind: type[Kind]) -> Callable[[dict[str, Any]], Callable[[], Kind]]:
    return lambda op: lambda: kind(op)


PROCESSORS: dict[str, Callable[[dict[str, Any]], Callable[[], Any]]] = {
    name: _supplier_of(kind) for name, kind in _KINDS.items()
}
"""Kind -> function of an op that gives a supplier; "global" keeps a global or read-only store."""
