"""Event times of records that wait outside of a task, for merging partitions in the order of Kafka Streams."""

from __future__ import annotations

from kstreamnb.core import extractors
from kstreamnb.core.time import Clock
from kstreamnb.runtime.context.config import Config
from kstreamnb.topology.nodes import Source


def has_own_extractor(source: Source, config: Config) -> bool:
    """Return whether records of a source may have another event time than their timestamp."""
    extractor = source.timestamp_extractor or config.default_timestamp_extractor
    return not (extractor is None or isinstance(extractor, extractors.FailOnInvalidTimestamp))


def source_extractor(source: Source, config: Config, clock: Clock) -> extractors.TimestampExtractor:
    """Return the timestamp extractor of a source: its own, else the application's, else the default."""
    chosen = source.timestamp_extractor or config.default_timestamp_extractor
    extractor = extractors.FailOnInvalidTimestamp() if chosen is None else extractors.extractor_of(chosen)
    return extractor.on(clock) if isinstance(extractor, extractors.WallclockTimestampExtractor) else extractor
