"""Describes the data of a sample: fields, types, missing values and ranges, and keys and bytes by partition."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from kstreamnb.core.codec import SerializedValue
from kstreamnb.core.formatting import format_time, format_value, pluralize
from kstreamnb.core.record import TopicRecord
from kstreamnb.core.tables import Tabular
from kstreamnb.samples.text import format_cell

_DEPTH = 5
_MOST_FIELDS = 60
_DISTINCT = 1000


@dataclass(frozen=True)
class FieldDescription:
    """A field of a topic's records: "key", "value", or a path such as "value.items[].price".

    ``missing`` counts records without the field or with null in it, among those that could hold it; ``distinct`` is
    exact up to 1,000. ``content`` is the range of numbers, or the most frequent values.
    """

    topic: str
    path: str
    types: tuple[tuple[str, int], ...]
    missing: int
    distinct: int
    content: str


@dataclass(frozen=True)
class PartitionDescription:
    """One partition: records, keys and bytes (of keys and values as JSON), first and last time (ms)."""

    topic: str
    partition: int
    records: int
    keys: int
    bytes: int
    first_ms: int
    last_ms: int


@dataclass(frozen=True, repr=False)
class SampleDescription(Tabular):
    """The fields of a sample's records, and its partitions.

    Example:
        >>> records = [TopicRecord("orders", 0, 0, 0, "a", {"n": 1}), TopicRecord("orders", 0, 1, 5, "b", {"n": 4})]
        >>> print(describe_records(records))
        1 topic, 2 records, 3 fields
        topic  | field   | type | missing | distinct | content
        -------+---------+------+---------+----------+-----------------
        orders | key     | str  | 0       | 2        | "a" (1), "b" (1)
        orders | value   | dict | 0       |          |
        orders | value.n | int  | 0       | 2        | 1 … 4
        orders-0: 2 records, 2 keys, 18 bytes, 0 to 5
    """

    fields: tuple[FieldDescription, ...]
    partitions: tuple[PartitionDescription, ...]
    left_out: int = 0

    header = ("topic", "field", "type", "missing", "distinct", "content")

    @property
    def title(self) -> str:
        """Count topics, records and fields."""
        topics = len({each.topic for each in self.partitions})
        records = sum(each.records for each in self.partitions)
        fields = f"{len(self.fields)} of {pluralize(len(self.fields) + self.left_out, 'field')}"
        shown = fields if self.left_out else pluralize(len(self.fields), "field")
        return f"{pluralize(topics, 'topic')}, {pluralize(records, 'record')}, {shown}"

    def table(self) -> Iterator[tuple[str, ...]]:
        """Yield the fields as text."""
        for each in self.fields:
            names = [name if len(each.types) == 1 else f"{name} {count:,}" for name, count in each.types]
            distinct = "" if not each.distinct else f"{each.distinct:,}"
            distinct = f"{_DISTINCT:,} or more" if each.distinct >= _DISTINCT else distinct
            yield each.topic, each.path, ", ".join(names), f"{each.missing:,}", distinct, each.content

    def more(self) -> Iterator[str]:
        """Yield records, keys, bytes and times of every partition."""
        for each in self.partitions:
            name = each.topic if each.partition < 0 else f"{each.topic}-{each.partition}"
            times = f"{format_time(each.first_ms)} to {format_time(each.last_ms)}"
            counts = pluralize(each.records, "record"), pluralize(each.keys, "key"), pluralize(each.bytes, "byte")
            yield f"{name}: {', '.join(counts)}, {times}"


@dataclass
class _Field:
    """The values of a field seen so far; ``elements`` counts the elements of lists, which have no other length."""

    types: Counter[str] = field(default_factory=Counter)
    values: Counter[str] = field(default_factory=Counter)
    low: float | None = None
    high: float | None = None
    elements: int = 0

    def add(self, value: object) -> None:
        """Count a value."""
        if value is None:
            return
        kind = type(value)
        self.types["undecodable bytes" if kind is SerializedValue else kind.__name__] += 1
        if type(value) is int or type(value) is float:
            self.low = value if self.low is None else min(self.low, value)
            self.high = value if self.high is None else max(self.high, value)
        if kind is not dict and kind is not list:
            text = format_value(value)
            if text in self.values or len(self.values) < _DISTINCT:
                self.values[text] += 1

    def described(self, topic: str, path: str, holders: int, top: int) -> FieldDescription:
        """Return the finished description; ``holders`` is how many values could have held the field."""
        types = tuple(sorted(self.types.items(), key=lambda each: (-each[1], each[0]))) or (("null", 0),)
        if self.types and self.types.keys() <= {"int", "float"}:
            low, high = format_value(self.low), format_value(self.high)
            content = low if low == high else f"{low} … {high}"
        else:
            most = sorted(self.values.items(), key=lambda each: (-each[1], each[0]))
            content = ", ".join(f"{text} ({count:,})" for text, count in most[:top])
            content += f" and {len(most) - top:,} more" if len(most) > top else ""
        missing = holders - self.types.total()
        return FieldDescription(topic, path, types, missing, len(self.values), content)


def describe_records(records: Iterable[TopicRecord], top: int = 3) -> SampleDescription:
    """Return the fields and partitions of records; ``top`` is how many of the most frequent values are named."""
    fields: dict[str, defaultdict[str, _Field]] = defaultdict(lambda: defaultdict(_Field))
    partitions: dict[tuple[str, int], list[TopicRecord]] = {}
    for record in records:
        partitions.setdefault((record.topic, record.partition), []).append(record)
        paths = fields[record.topic]
        _walk(paths, "key", record.key, _DEPTH)
        _walk(paths, "value", record.value, _DEPTH)
    counts = Counter(topic for (topic, _), each in partitions.items() for _ in each)
    every = [(topic, path) for topic, paths in sorted(fields.items()) for path in paths]
    shown = (  # maps may have a name for each record, and each field is looked for among all
        fields[topic][path].described(topic, path, _holders(fields[topic], path, counts[topic]), top)
        for topic, path in every[:_MOST_FIELDS]
    )
    described = tuple(_partition(*partition_id, each) for partition_id, each in sorted(partitions.items()))
    return SampleDescription(tuple(shown), described, max(len(every) - _MOST_FIELDS, 0))


def _walk(fields: defaultdict[str, _Field], path: str, value: object, depth: int) -> None:
    """Add a value and everything inside it."""
    fields[path].add(value)
    if depth and isinstance(value, dict):
        for name, part in value.items():
            _walk(fields, f"{path}.{name}", part, depth - 1)
    elif depth and isinstance(value, list):
        for part in value:
            _walk(fields, f"{path}[]", part, depth - 1)
            fields[f"{path}[]"].elements += 1


def _holders(fields: Mapping[str, _Field], path: str, records: int) -> int:
    """Return how many values could have held a field: records, elements of lists, or dicts around it."""
    if path in ("key", "value"):
        return records
    if path.endswith("[]"):
        return fields[path].elements
    around = max((each for each in fields if path.startswith(f"{each}.")), key=len)
    return fields[around].types["dict"]


def _partition(topic: str, partition: int, records: list[TopicRecord]) -> PartitionDescription:
    keys = {format_cell(record.key) for record in records if record.key is not None}
    times = [record.timestamp for record in records]
    size = sum(map(size_of, records))
    return PartitionDescription(topic, partition, len(records), len(keys), size, min(times), max(times))


def size_of(record: TopicRecord) -> int:
    """Return the bytes of a record's key and value as a text table has them.

    Example:
        >>> size_of(TopicRecord("orders", 0, 0, 0, "shoe", {"n": 1}))
        12
    """
    return len(format_cell(record.key).encode()) + len(format_cell(record.value).encode())
