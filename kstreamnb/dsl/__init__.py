"""The DSL of Kafka Streams: `StreamsBuilder`, streams and tables, and the option objects.

What a user declares is kept in a ledger; building replays it into a logical graph and lowers that to a topology.
"""

from kstreamnb.core.windows import JoinWindows, SessionWindows, SlidingWindows, TimeWindows, UnlimitedWindows
from kstreamnb.dsl.builder import StreamsBuilder
from kstreamnb.dsl.declarations import Declaration, Handle, Identities, Identity, Ledger, identify_with
from kstreamnb.dsl.grouping import (
    CogroupedKStream,
    KGroupedStream,
    KGroupedTable,
    SessionWindowedCogroupedKStream,
    SessionWindowedKStream,
    TimeWindowedCogroupedKStream,
    TimeWindowedKStream,
)
from kstreamnb.dsl.kstream import KStream
from kstreamnb.dsl.ktable import GlobalKTable, KTable
from kstreamnb.dsl.options import (
    Branched,
    Consumed,
    EmitStrategy,
    Grouped,
    Joined,
    Materialized,
    Named,
    Printed,
    Produced,
    Repartitioned,
    StreamJoined,
    TableJoined,
)
from kstreamnb.dsl.routing import BranchedKStream
from kstreamnb.dsl.suppressed import BufferConfig, Suppressed

__all__ = [
    "Branched", "BranchedKStream", "BufferConfig", "CogroupedKStream", "Consumed", "Declaration", "EmitStrategy",
    "GlobalKTable", "Grouped", "Handle", "Identities", "Identity", "JoinWindows", "Joined", "KGroupedStream",
    "KGroupedTable", "KStream", "KTable", "Ledger", "Materialized", "Named", "Printed", "Produced", "Repartitioned",
    "SessionWindowedCogroupedKStream", "SessionWindowedKStream", "SessionWindows", "SlidingWindows", "StreamJoined",
    "StreamsBuilder", "Suppressed", "TableJoined", "TimeWindowedCogroupedKStream", "TimeWindowedKStream",
    "TimeWindows", "UnlimitedWindows", "identify_with",
]  # fmt: skip
