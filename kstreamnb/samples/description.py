"""Describes the data of a sample: fields, types, missing values and ranges, and keys and bytes by partition."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from kstreamnb.core.codec import SerializedValue
from kstreamnb.core.formatting import format_time, format_value, pluralize
from kstreamnb.core.record import TopicRecord
from kstreamnb.core.tables import Tabular
from kstreamnb.samples.text import format_cell

_DEPTH = 5
_MOST_FIELDS = 60
_MOST_VALUES = 10_000
"""Texts of more different values of a field are not kept: each takes memory."""


@dataclass(frozen=True)
class FieldDescription:
    """A field of a topic's records: "key", "value", or a path such as "value.items[].price".

    ``missing`` counts records without the field or with null in it, among those that could hold it. ``content`` is the
    range of numbers, or the most frequent values. ``more`` says that there are more than ``distinct`` different values;
    only the first ones of that number are counted.
    """

    topic: str
    path: str
    types: tuple[tuple[str, int], ...]
    missing: int
    distinct: int
    content: str
    more: bool = False


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
            distinct = f"{'more than ' * each.more}{each.distinct:,}" if each.distinct else ""
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
    """The values of a field; ``parent`` has the dicts that could hold it, None if each value has its own place."""

    parent: _Field | None
    values: list[object] = field(default_factory=list)

    @property
    def holders(self) -> int:
        """Return how many values could have been there: records, elements of lists, or dicts around the field."""
        return len(self.values) if self.parent is None else sum(type(each) is dict for each in self.parent.values)

    def described(self, topic: str, path: str, top: int) -> FieldDescription:
        """Return the description; ``top`` is how many of the most frequent values it names."""
        present = [value for value in self.values if value is not None]
        counts = Counter("undecodable bytes" if type(v) is SerializedValue else type(v).__name__ for v in present)
        types = tuple(sorted(counts.items(), key=lambda each: (-each[1], each[0]))) or (("null", 0),)
        texts, plain = Counter[str](), [value for value in present if type(value) not in (dict, list)]
        for text in map(format_value, plain):
            if len(texts) < _MOST_VALUES or text in texts:
                texts[text] += 1
        more = sum(texts.values()) < len(plain)
        numbers = [value for value in present if type(value) is int or type(value) is float]
        if numbers and len(numbers) == len(present):
            low, high = format_value(min(numbers)), format_value(max(numbers))
            content = low if low == high else f"{low} … {high}"
        else:
            most = sorted(texts.items(), key=lambda each: (-each[1], each[0]))
            content = ", ".join(f"{text} ({count:,})" for text, count in most[:top])
            content += f" and {'more than ' * more}{len(most) - top:,} more" if len(most) > top else ""
        return FieldDescription(topic, path, types, self.holders - len(present), len(texts), content, more)


def describe_records(records: Iterable[TopicRecord], top: int = 3) -> SampleDescription:
    """Return the fields and partitions of records; ``top`` is how many of the most frequent values are named."""
    fields: dict[tuple[str, str], _Field] = {}
    partitions: dict[tuple[str, int], list[TopicRecord]] = {}
    for record in records:
        partitions.setdefault((record.topic, record.partition), []).append(record)
        _collect(fields, record.topic, "key", record.key, _DEPTH)
        _collect(fields, record.topic, "value", record.value, _DEPTH)
    every = sorted(fields.items(), key=lambda each: each[0][0])
    shown = tuple(each.described(topic, path, top) for (topic, path), each in every[:_MOST_FIELDS])
    described = tuple(_partition(*partition_id, each) for partition_id, each in sorted(partitions.items()))
    return SampleDescription(shown, described, max(len(every) - _MOST_FIELDS, 0))


def _collect(
    fields: dict[tuple[str, str], _Field], topic: str, path: str, value: object, depth: int, owner: _Field | None = None
) -> None:
    """Add a value and everything inside it."""
    own = fields.setdefault((topic, path), _Field(owner))
    own.values.append(value)
    if depth and isinstance(value, dict):
        for name, part in value.items():
            _collect(fields, topic, f"{path}.{name}", part, depth - 1, own)
    elif depth and isinstance(value, list):
        for part in value:
            _collect(fields, topic, f"{path}[]", part, depth - 1)


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
