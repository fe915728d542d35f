"""The metadata of Kafka Streams' committed offsets: stream time, and up to where windows were emitted.

confluent-kafka ends the metadata that it commits with a zero byte, which is not Base64: Java would ignore it. So these
commits are calls of librdkafka itself, which confluent-kafka has loaded.
"""

from __future__ import annotations

import ctypes
import re
import struct
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from confluent_kafka import KafkaError, KafkaException

from kstreamnb.errors import BrokerError
from kstreamnb.kafka.admin import Admin
from kstreamnb.kafka.client import connection

NO_TIME = -1
_VERSION, _OLD_VERSION = 2, 1
_BASE64 = re.compile("(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?")
_CONSUMER, _OK, _TEXT = 1, 0, 512


@dataclass(frozen=True)
class OffsetMetadata:
    """Stream time of a partition (ms, -1 if unknown), and by store the time (ms) up to which windows were emitted."""

    stream_time_ms: int = NO_TIME
    emitted_ms: Mapping[str, int] = field(default_factory=dict)


CommittedOffset: TypeAlias = tuple[str, int, int, OffsetMetadata]
"""Topic, partition, offset and metadata."""


def encode_metadata(metadata: OffsetMetadata) -> str:
    """Return the text that Kafka Streams commits with an offset.

    Example:
        >>> encode_metadata(OffsetMetadata(5))
        'AgAAAAAAAAAF'
        >>> decode_metadata(encode_metadata(OffsetMetadata(5, {"windows": 7})))
        OffsetMetadata(stream_time_ms=5, emitted_ms={'windows': 7})
    """
    data = struct.pack(">bq", _VERSION, metadata.stream_time_ms)
    if metadata.emitted_ms:
        data += struct.pack(">i", len(metadata.emitted_ms))
    for store, time_ms in sorted(metadata.emitted_ms.items()):
        name = store.encode()
        data += struct.pack(">i", len(name)) + name + struct.pack(">q", time_ms)
    return b64encode(data).decode()


def decode_metadata(text: str) -> OffsetMetadata:
    """Return what Kafka Streams has committed; the default for text of other programs.

    librdkafka returns metadata without its end, so other characters may follow.
    """
    data = b64decode(_BASE64.findall(text)[0])  # up to the first group that is not Base64
    try:
        version, stream_time_ms = struct.unpack_from(">bq", data)
        if version not in (_VERSION, _OLD_VERSION):
            return OffsetMetadata()
        return OffsetMetadata(stream_time_ms, _emitted(data[9:]) if version == _VERSION else {})
    except struct.error:
        return OffsetMetadata()


def _emitted(data: bytes) -> dict[str, int]:
    """Read the map of processors; bytes that form no map came after the end of the metadata."""
    times: dict[str, int] = {}
    try:
        (count,), at = struct.unpack_from(">i", data), 4
        for _ in range(count):
            (size,) = struct.unpack_from(">i", data, at)
            if size < 0:  # the loop would not advance
                return {}
            name = data[at + 4 : at + 4 + size].decode()
            (times[name],) = struct.unpack_from(">q", data, at + 4 + size)
            at += 12 + size
    except (struct.error, UnicodeDecodeError):
        return {}
    return times


class _Partition(ctypes.Structure):
    """librdkafka's ``rd_kafka_topic_partition_t``."""

    _fields_ = (
        ("topic", ctypes.c_char_p),
        ("partition", ctypes.c_int32),
        ("offset", ctypes.c_int64),
        ("metadata", ctypes.c_void_p),
        ("metadata_size", ctypes.c_size_t),
        ("opaque", ctypes.c_void_p),
        ("error", ctypes.c_int),
        ("private", ctypes.c_void_p),
    )


def commit_offsets(admin: Admin, group: str, offsets: Iterable[CommittedOffset]) -> None:
    """Commit offsets of a group that has no members, with metadata that Kafka Streams reads.

    Args:
        admin: names the brokers; its patience is that with brokers that are away, of which one attempt takes 45 s.
        group: id of the group.
        offsets: the offsets with their metadata.

    Raises:
        BrokerError: the brokers refused, or did not answer.
    """
    library = _library()
    text = ctypes.create_string_buffer(_TEXT)
    settings = library.rd_kafka_conf_new()
    for name, value in connection(admin.servers, group_id=group, enable_auto_commit=False).items():
        if isinstance(value, str | int | float | bool):  # others, such as callbacks and loggers, are Python's
            shown = str(value).lower() if isinstance(value, bool) else str(value)
            library.rd_kafka_conf_set(settings, name.encode(), shown.encode(), text, _TEXT)
    consumer = library.rd_kafka_new(_CONSUMER, settings, text, _TEXT)
    if not consumer:
        raise BrokerError(f'offsets of group "{group}" were not committed', detail=text.value.decode())
    wanted = library.rd_kafka_topic_partition_list_new(1)
    try:
        for topic, partition, offset, metadata in offsets:
            _add(library, wanted, topic, partition, offset, encode_metadata(metadata).encode())

        def commit() -> None:
            code = library.rd_kafka_commit(consumer, wanted, 0)
            if code != _OK:
                raise KafkaException(KafkaError(code))

        admin.retry(commit, f'committing offsets of group "{group}"')
    finally:
        library.rd_kafka_topic_partition_list_destroy(wanted)
        library.rd_kafka_destroy(consumer)


def _add(library: Any, wanted: int, topic: str, partition: int, offset: int, metadata: bytes) -> None:
    entry = library.rd_kafka_topic_partition_list_add(wanted, topic.encode(), partition).contents
    memory = library.rd_kafka_mem_malloc(None, len(metadata))  # the list frees it
    ctypes.memmove(memory, metadata, len(metadata))
    entry.offset, entry.metadata, entry.metadata_size = offset, memory, len(metadata)


def _library() -> Any:
    """Return librdkafka as loaded by confluent-kafka, with the types of the functions that are used."""
    from confluent_kafka import cimpl

    library = ctypes.CDLL(cimpl.__file__)
    pointer, text, size = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t
    for name, result, arguments in (
        ("rd_kafka_conf_new", pointer, []),
        ("rd_kafka_conf_set", ctypes.c_int, [pointer, text, text, text, size]),
        ("rd_kafka_new", pointer, [ctypes.c_int, pointer, text, size]),
        ("rd_kafka_topic_partition_list_new", pointer, [ctypes.c_int]),
        ("rd_kafka_topic_partition_list_add", ctypes.POINTER(_Partition), [pointer, text, ctypes.c_int32]),
        ("rd_kafka_topic_partition_list_destroy", None, [pointer]),
        ("rd_kafka_mem_malloc", pointer, [pointer, size]),
        ("rd_kafka_commit", ctypes.c_int, [pointer, pointer, ctypes.c_int]),
        ("rd_kafka_destroy", None, [pointer]),
    ):
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library
