"""`Sample`: records to try a topology on, from any source."""

from __future__ import annotations

import hashlib
import operator
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from kstreamnb.core.arguments import at_least, expect, expect_number, expect_texts
from kstreamnb.core.codec import SerializedValue
from kstreamnb.core.formatting import clean, pluralize, shorten
from kstreamnb.core.record import TopicRecord, headers_of
from kstreamnb.core.serde import Serde
from kstreamnb.core.tables import html_table, text_table
from kstreamnb.core.time import MAX_TIME_MS, Instant
from kstreamnb.data_files import encoding_of
from kstreamnb.errors import ConfigError, KStreamError, extra
from kstreamnb.frame_cells import timestamp_ms, whole_with_gaps
from kstreamnb.frames import Framed
from kstreamnb.masking import clean_lines
from kstreamnb.samples import json_lines, privacy, reshape
from kstreamnb.samples.columns import UNASSIGNED, Roles, missing_file, number_offsets, partitioned, warn_of_units
from kstreamnb.samples.description import SampleDescription, describe_records
from kstreamnb.samples.statistics import SampleStatistics, statistics_of
from kstreamnb.samples.storable import SampleSerdes, naming_fields, storable
from kstreamnb.samples.text import columns_of, format_records, parse_rows, record_cells

if TYPE_CHECKING:  # frames are optional
    from kstreamnb.kafka.capture import Progress
    from kstreamnb.kafka.client import Servers

_SHOWN = 10
_LONGEST = 200
_HASHED = 4096


@dataclass(frozen=True, repr=False)
class Sample(Framed):
    """Bounded, ordered, immutable records with topic, partition, offset, timestamp, key, value and headers.

    Within a partition records are in order of arrival, which may differ from the order of timestamps.
    Partition -1 means the key's partition. A key or value that no serde could read stays as
    `SerializedValue` bytes. ``notes`` say where the records came from and how they were changed.
    Files keep objects of a capture's serdes as dicts (Protobuf messages) or as bytes, which a replay reads with the
    serdes of its topology.

    Args:
        records: the records; within a partition in order of arrival.
        notes: lines that say where the records came from. Default: none.
        schema: pairs of a column and its type, of a sample from a frame. Default: none.
        serdes: by topic the serdes of keys and values with which records were captured. Default: none.

    Example:
        >>> sample = Sample.from_text('''
        ...     topic | key  | value           | time
        ...     sales | shoe | {"quantity": 1} | 0
        ...     sales | sock | {"quantity": 2} | 5
        ... ''')
        >>> sample[1].value
        {'quantity': 2}
    """

    records: tuple[TopicRecord, ...]
    notes: tuple[str, ...] = field(default=(), compare=False)
    schema: tuple[tuple[str, str], ...] = field(default=(), compare=False)
    serdes: SampleSerdes = field(default_factory=dict, compare=False)

    def __post_init__(self) -> None:
        expect(self.records, tuple | list, "records")

    # --- from elsewhere ---
    @classmethod
    def from_records(cls, records: Iterable[TopicRecord | tuple[Any, ...]], *, note: str | None = None) -> Sample:
        """Return a sample of records, or of tuples ``(topic, partition, offset, timestamp, key, value[, headers])``.

        Args:
            records: `TopicRecord` objects or tuples in the same order; timestamps in epoch milliseconds; headers are
                pairs of a name and bytes, or a mapping.
            note: one line that says where the records come from. Default: none.

        Raises: ConfigError for a time that is missing or no 64-bit number of milliseconds, with the record's index, and
        for other headers.
        """
        expect(records, Iterable, "records")
        checked = tuple(map(_record_of, records))
        if any(type(record.timestamp) is not int or abs(record.timestamp) > MAX_TIME_MS for record in checked):
            times = [timestamp_ms(record.timestamp, f"record {at}") for at, record in enumerate(checked)]
            checked = tuple(record._replace(timestamp=time) for record, time in zip(checked, times, strict=True))
        warn_of_units(checked)
        return cls(checked, (note,) if note else ())

    @classmethod
    def from_text(
        cls, text: str, *, topic: str | None = None, partitions: int | None = None, key_serde: Serde | str | None = None
    ) -> Sample:
        """Read a sample from a text table: ``topic | key | value | time | partition``, with columns in any order.

        Cells are JSON or bare words; an empty cell is None. A time is milliseconds, ISO text or a duration since the
        epoch; an empty cell repeats the time of the row before, and without a time column all are 0.

        Args:
            text: the table; its first row names the columns.
            topic: name of the topic of a table without that column. Default: None.
            partitions: number of partitions among which keys choose. Default: None, -1 stands for the key's partition.
            key_serde: serde, or its name, whose bytes choose the partition; needs ``partitions``. Default: text.

        Raises: ConfigError, with the line, for a cell that cannot be read, a first row without a time, and a time
        beyond 64 bits.
        """
        if key_serde is not None and partitions is None:
            raise ConfigError("key_serde= has no effect without partitions=", hint="add partitions=")
        records, time, numbered = [], 0, False
        for row in parse_rows(text, topic=topic):
            if "topic" not in row:
                raise ConfigError("a row of the table has no topic", hint="add a topic column, or pass topic=")
            time, numbered = row.get("time", time), numbered or "offset" in row
            position = row["topic"], row.get("partition", UNASSIGNED), row.get("offset", 0), time
            records.append(TopicRecord(*position, row.get("key"), row.get("value"), row.get("headers", ())))
        warn_of_units(records, least=10**14)  # durations since the epoch, such as 30d, look like seconds
        if partitions is not None:
            return cls(partitioned(records, partitions, key_serde), ("typed",))
        return cls(tuple(records) if numbered else number_offsets(records), ("typed",))

    @classmethod
    @extra("samples")
    def from_dataframe(
        cls,
        frame: object,
        *,
        topic: str,
        timestamp: str,
        key: str | None = None,
        value: str | Sequence[str] | None = None,
        partition: str | None = None,
        partitions: int | None = None,
        order_by: str | Sequence[str] = (),
        key_serde: Serde | str | None = None,
        **draw: object,
    ) -> Sample:
        """Make a sample from a frame of pandas, Polars or Spark, or from an Arrow table.

        ``key``, ``timestamp`` and ``partition`` name columns; ``value`` one column, or those of a dict (all others
        when not given). Rows have no offsets: rows keep their order, but those of Spark are ordered by time and then by
        content, unless ``order_by`` names columns. Partitions come from the column, or from the key among
        ``partitions``. From a Spark frame ``between=(start, end)``, ``key_share=`` and ``limit=`` draw a part.
        In keys and values, times, decimals, periods and intervals become text, durations seconds as a float, arrays
        lists, and missing values None.

        Args:
            frame: a DataFrame of pandas, Polars or Spark, or another table that exports Arrow data.
            topic: name of the topic that the records get.
            timestamp: name of the column with event times.
            key: name of the column with keys. Default: None, records without a key.
            value: name of the column with values, or names of the fields of a dict. Default: all other columns.
            partition: name of the column with partitions. Default: None.
            partitions: number of partitions among which keys choose. Default: None, the topic's number is chosen at
                replay.
            order_by: names of the columns by which rows are sorted. Default: rows keep their order; those of Spark are
                ordered by time, then by content.
            key_serde: serde, or its name, whose bytes choose the partition. Default: text.
            draw: ``between=``, ``key_share=`` and ``limit=``, for a Spark frame only. Default: all rows.

        Raises: ConfigError for a column that the frame does not have or whose name is not text, a value of another
        type, or an option that its kind does not take.
        """
        from kstreamnb.samples import frames

        kind = frames.frame_kind(frame)
        order = (order_by,) if isinstance(order_by, str) else tuple(order_by)
        roles = Roles(topic, timestamp, key, value, partition, None, order, partitions, key_serde)
        if kind != "spark" and draw:
            raise ConfigError(f'option "{min(draw)}" applies only to a Spark frame', hint=f"slice the {kind} frame")
        records, schema = getattr(frames, f"records_of_{kind}")(frame, roles, **draw)
        gaps = whole_with_gaps(frame, roles.read(dict(schema))) if kind == "pandas" else ()
        notes = [f'whole numbers of column "{name}" are floats, because it has gaps: .astype("Int64")' for name in gaps]
        times = list(map(operator.itemgetter(3), records))
        if partition is None and not order and any(map(operator.gt, times, times[1:])):
            notes.append(f'rows are not sorted by time: order_by="{timestamp}" sorts them')
        return cls(records, (f"from {'an' if kind == 'arrow' else 'a'} {kind} frame", *notes), schema)

    @classmethod
    @extra("samples")
    def from_parquet(cls, path: Path | str, *, topic: str | None = None, **columns: object) -> Sample:
        """Make a sample from a Parquet file: one that `to_parquet` wrote, or any other if its columns are named.

        ``topic``, ``key``, ``timestamp``, ``value``, ``partition``, ``partitions`` and ``key_serde`` are those of
        `from_dataframe`.

        Args:
            path: path of the file, or of the folder of a data set, whose files are read in the order of their names.
            topic: name of the topic of a file of values. Default: None, the file was written by `to_parquet`.
            columns: the arguments of `from_dataframe` that are named above.

        Raises: ConfigError if the file does not exist or has no such column, MissingPackageError without pyarrow.
        """
        from kstreamnb.samples.arrow import read_parquet

        records, schema, metadata = read_parquet(path, _roles(topic, columns))
        return cls(records, tuple(metadata.get("notes", (f"from {Path(path).name}",))), schema)

    @classmethod
    def from_json_lines(cls, path: Path | str, *, topic: str | None = None, **columns: object) -> Sample:
        """Make a sample from a file of JSON lines: records that `to_json_lines` wrote, or values whose fields are
        named.

        Args:
            path: path of the file, in UTF-8, or in UTF-16 with a byte order mark.
            topic: name of the topic of a file of values. Default: None, the file holds whole records.
            columns: ``key``, ``timestamp``, ``value``, ``partition``, ``partitions`` and ``key_serde`` as in
                `from_dataframe`.

        Raises: ConfigError if the file does not exist, is not text in UTF-8, or has a line that is not JSON.
        """
        roles = _roles(topic, columns)
        expect(path, str | Path, "path")
        if not os.path.exists(path):
            raise missing_file(path)
        try:
            with open(path, "rb") as file:
                lines = TextIOWrapper(file, encoding_of(file.peek()))
                read = json_lines.read_lines if roles is None else partial(json_lines.read_value_lines, roles=roles)
                return cls(read(lines), (f"from {Path(path).name}",))
        except (UnicodeError, IsADirectoryError, PermissionError) as error:  # the last for a folder on Windows
            raise ConfigError(f'file "{Path(path).name}" cannot be read as text in UTF-8', detail=str(error)) from error

    @classmethod
    @extra("kafka")
    def capture(
        cls,
        servers: Servers,
        *topics: str,
        records: int | None = 1000,
        seconds: float | None = 10.0,
        bytes: int | None = None,
        from_: Instant | str | Mapping[str, Mapping[int, int]] = "earliest",
        follow: bool = False,
        key_serde: Serde | str | Mapping[str, Serde | str] | None = None,
        value_serde: Serde | str | Mapping[str, Serde | str] | None = None,
        redact: Sequence[str] = (),
        hash_keys: str | None = None,
        progress: Progress | None = None,
    ) -> Sample:
        """Capture the records that topics hold now and, with ``follow``, those that come later.

        It ends after ``records``, ``seconds`` or ``bytes``, whichever comes first, or on an interrupt: the records read
        by then are kept. ``from_`` is "earliest", "latest", which waits for new records, an instant, or offsets by
        topic and partition. Only committed records are read, and no group offsets are written. ``redact`` names fields
        to blank out; ``hash_keys`` is a salt.

        Args:
            servers: ``host:port,…``, or settings of a client with ``bootstrap.servers`` among them.
            topics: names of the topics to read.
            records: maximum number of records; None for no limit. Default: 1000.
            seconds: longest time to read, in seconds; None for no limit. Default: 10.
            bytes: maximum total size of keys and values. Default: None, no limit.
            from_: where to start: "earliest", "latest", an instant, or offsets by topic and partition. Default:
                "earliest".
            follow: wait for records that are written later, too. Default: False.
            key_serde: serde of the keys, or its name such as "long", or a mapping from topics to serdes. Default: text;
                other bytes stay as they are.
            value_serde: serde of the values, or its name, or a mapping from topics. Default: JSON; other bytes stay as
                they are.
            redact: names of fields to blank out before the sample is returned. Default: none.
            hash_keys: salt with which keys are hashed. Default: None, keys stay.
            progress: function ``(records, bytes, seconds) -> None``, called a few times a second. Default: None.

        Raises: ConfigError for a limit that is not positive, a topic that is not text, or fields in one string;
            KafkaException of the client.
        """
        from kstreamnb.kafka.capture import CaptureLimits, capture

        expect_texts(redact, "redact=")
        limits = CaptureLimits(records, seconds, bytes, follow)
        taken = capture(
            servers, topics, limits, from_=from_, key_serde=key_serde, value_serde=value_serde, progress=progress
        )
        notes = f"captured; {taken.ended}", *taken.bounds
        sample = cls(taken.records, notes, serdes=taken.serdes).merge()
        sample = sample.redact(*redact) if redact else sample
        return sample.hash_keys(salt=hash_keys) if hash_keys is not None else sample

    # --- to elsewhere ---
    def to_text(self) -> str:
        """Return the records as a table that `from_text` reads."""
        return format_records(self.records)

    def _frame_rows(self) -> tuple[Sequence[str], Iterable[Sequence[object]]]:
        return TopicRecord._fields, self.records

    @extra("samples")
    def to_parquet(self, path: Path | str) -> None:
        """Write a Parquet file that `from_parquet` reads back as an equal sample.

        Args:
            path: path of the file, which is overwritten.

        Raises: MissingPackageError without pyarrow; ConfigError, with topic and field, for a value that files cannot
        hold.
        """
        from kstreamnb.samples.arrow import write_parquet

        with naming_fields(self.records):
            records = storable(self.records, self.serdes)
            write_parquet(records, path, {"notes": list(self.notes), "hash": self.content_hash})

    def to_json_lines(self, path: Path | str) -> None:
        """Write a file of JSON lines that `from_json_lines` reads back as an equal sample.

        Args:
            path: path of the file, which is overwritten.

        Raises: ConfigError, with topic and field, for a value that files cannot hold.
        """
        with naming_fields(self.records):
            lines = list(map(json_lines.record_line, storable(self.records, self.serdes)))
        with Path(path).open("wb") as file:
            file.writelines(lines)

    # --- contents ---
    @property
    def topics(self) -> tuple[str, ...]:
        """Names of the topics, in alphabetical order."""
        return tuple(sorted({record.topic for record in self.records}))

    @cached_property
    def content_hash(self) -> str:
        """Twelve digits that are equal for equal records, on every machine."""
        digest, records = hashlib.sha256(), storable(self.records, self.serdes)
        with naming_fields(records):
            for at in range(0, len(records), _HASHED):
                digest.update(json_lines.content_text(records[at : at + _HASHED]).encode())
        return digest.hexdigest()[:12]

    @property
    def undecodable(self) -> Sample:
        """The records whose key or value no serde could read."""
        return self.where(lambda record: SerializedValue in (type(record.key), type(record.value)))

    def statistics(self, *, top: int = 3) -> SampleStatistics:
        """Compute keys, skew over partitions and lateness of each topic, and the grace that they suggest.

        Args:
            top: how many of the most frequent keys to show for each topic. Default: 3.
        """
        expect_number(top, "top")
        at_least(1, top, "top")
        return statistics_of(self.records, top)

    def describe(self, *, top: int = 3) -> SampleDescription:
        """Describe the records: fields with types, missing values and ranges; keys, bytes and times by partition.

        Args:
            top: how many of the most frequent values of a field to name. Default: 3.

        Example:
            >>> sample = Sample.from_records([("orders", 0, 0, 0, "a", {"n": 1}), ("orders", 0, 1, 5, "a", {"n": 4})])
            >>> [(each.path, each.content) for each in sample.describe().fields]
            [('key', '"a" (2)'), ('value', ''), ('value.n', '1 … 4')]
        """
        expect_number(top, "top")
        at_least(1, top, "top")
        return describe_records(self.records, top)

    head = reshape.head
    where = reshape.where
    between = reshape.between
    of_topic = reshape.of_topic
    merge = __add__ = reshape.merge
    shift = reshape.shift
    starting_at = reshape.starting_at
    with_partitions = reshape.with_partitions
    disorder = reshape.disorder
    redact = privacy.redact
    hash_keys = privacy.hash_keys

    def __hash__(self) -> int:
        return int(self.content_hash, 16)

    def __iter__(self) -> Iterator[TopicRecord]:
        return iter(self.records)

    def __len__(self) -> int:
        return len(self.records)

    @overload
    def __getitem__(self, index: int) -> TopicRecord: ...

    @overload
    def __getitem__(self, index: slice) -> Sample: ...

    def __getitem__(self, index: int | slice) -> TopicRecord | Sample:
        return replace(self, records=self.records[index]) if isinstance(index, slice) else self.records[index]

    def __repr__(self) -> str:
        above, below = self._around_table()
        table = [text_table(*self.shown_cells(), rule=False)] if self.records else []
        return clean_lines("\n".join([*above, *table, *below]))

    def _repr_html_(self) -> str:
        above, below = self._around_table()
        return html_table(*self.shown_cells(), [line.strip() for line in (*above, *below)])

    def _around_table(self) -> tuple[list[str], list[str]]:
        """Return the lines above the table, the title and notes, and the one below."""
        above = [f"Sample of {pluralize(len(self), 'record')}{self._hash_text()}"]
        above += [f"  {note}" for note in self.notes]
        if bad := len(self.undecodable):
            above.append(f"  {bad:,} could not be decoded and stay as bytes{self._serde_hint()}")
        return above, [f"{_SHOWN} of {len(self):,}"] if len(self) > _SHOWN else []

    def _hash_text(self) -> str:
        try:
            return f", hash {self.content_hash}"
        except (KStreamError, TypeError, ValueError, RecursionError):  # a display never fails for a value
            return ""

    def _serde_hint(self) -> str:
        """Return the serdes of Kafka Streams that bytes may need: counts take 8 bytes, a window's start as many."""
        keys = [record.key for record in self.records if type(record.key) is SerializedValue]
        values = [record.value for record in self.records if type(record.value) is SerializedValue]
        hints = []
        if keys and all(len(key) > 8 for key in keys):
            hints.append('key_serde=ks.Serdes.time_windowed(ks.Serdes.string(), "1h") for windowed keys')
        if values and all(len(value) == 8 for value in values):
            hints.append('value_serde="long" for counts')
        return f"; try {' and '.join(hints)}" if hints else ""

    def shown_cells(self) -> tuple[Sequence[str], list[list[str]]]:
        """Return column names and cells of the records that a display shows."""
        names = columns_of(self.records)
        rows = record_cells(self.records[:_SHOWN], names)
        return names, [[shorten(clean(cell), _LONGEST) for cell in row] for row in rows]


def _record_of(record: TopicRecord | tuple[Any, ...]) -> TopicRecord:
    """Return a record of a tuple; raise ConfigError for anything else."""
    rows = "for dicts, make a data frame: ks.Sample.from_dataframe(pandas.DataFrame(rows), …)"
    expect(record, tuple | list, "each record", hint=rows)
    if not 6 <= len(record) <= 7:
        fields = ", ".join(TopicRecord._fields)
        raise ConfigError(f"expected 6 or 7 fields, got {len(record)}", hint=f"pass ({fields}); headers are optional")
    result = TopicRecord(*record)
    return result if result.headers == () else result._replace(headers=headers_of(result.headers))


def _roles(topic: str | None, columns: dict[str, Any]) -> Roles | None:
    """Return the columns of a file that was not written by a sample, or None for one that was."""
    options = columns.keys() & {"partitions", "key_serde"}
    unknown = columns.keys() - {"timestamp", "key", "value", "partition"} - options
    if unknown:
        fact = f'unknown option "{min(unknown)}"'
        raise ConfigError(fact, detail="options are key, key_serde, partition, partitions, timestamp and value")
    if topic is None:
        if columns.keys() - options:
            raise ConfigError("column names need a topic", hint="add topic=")
        if options:
            fact = f'option "{min(options)}" applies only to files with named columns'
            raise ConfigError(fact, hint="files of to_parquet have partitions: call with_partitions() on the sample")
        return None
    if "timestamp" not in columns:
        raise ConfigError(f'no time column was named for topic "{topic}"', hint="pass timestamp=")
    return Roles(topic, **columns)
