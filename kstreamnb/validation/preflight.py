"""Checks a topology against topic sizes and sample records before it runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from kstreamnb.core.arguments import check_arguments
from kstreamnb.core.formatting import join_list
from kstreamnb.core.record import TopicRecord
from kstreamnb.core.time import format_duration
from kstreamnb.core.windows import UnlimitedWindows
from kstreamnb.errors import TopologyError
from kstreamnb.runtime.context.config import Config
from kstreamnb.runtime.context.task_plan import TaskPlan
from kstreamnb.topology.nodes import ProcessorNode, Sink, Source, walk
from kstreamnb.topology.partitions import topic_writers, uneven_fact, uneven_remedy, uneven_stores
from kstreamnb.topology.topology import Topology
from kstreamnb.validation.changelog_checks import changelog_findings
from kstreamnb.validation.directory_checks import folder_findings
from kstreamnb.validation.field_checks import field_findings
from kstreamnb.validation.issue import Issue, Issues, Severity
from kstreamnb.validation.sample_checks import check_sample


def check(
    topology: Topology,
    sample: Iterable[TopicRecord] | None = None,
    *,
    partitions: Mapping[str, int] | int | None = None,
    config: Config | Mapping[str, object] | None = None,
    folders: Mapping[str, str | Path] | None = None,
) -> Issues:
    """Find problems that would keep a topology from starting, make its results wrong, or waste resources.

    A sample runs through the topology once; all failing, dropped and misplaced records are reported. It is not run if
    the topology writes every record back to a topic that it reads, because the run would never end; a filter, a branch
    or a processor in between shows that the loop is intended.

    Args:
        topology: the topology to check.
        sample: records of any topics with their partitions; default none.
        partitions: partition counts by topic, or one number for all; default: derived from the sample.
        config: settings by Python's or Kafka's names. Default: `Config()`.
        folders: a deployment's folders by what they contain: ``{"checkpoint": "/data/shop", "broker log": "/logs"}``.
            Default: none.

    Example:
        >>> from kstreamnb import StreamsBuilder
        >>> builder = StreamsBuilder("uneven")
        >>> orders, rates = builder.stream("orders"), builder.table("rates")
        >>> orders.join(rates, lambda order, rate: order * rate).to("out")
        >>> issues = check(builder.build(), partitions={"orders": 4, "rates": 2, "out": 4})
        >>> [(finding.severity, finding.fact) for finding in issues]
        [('error', 'topics must have the same number of partitions: "orders" has 4, "rates" has 2')]
    """
    check_arguments(check, locals())
    records = None if sample is None else list(sample)
    counts = _counts(topology, partitions, records or ())
    settings = Config.of(config)
    result = [
        *_partition_findings(topology, counts),
        *_serde_findings(topology, settings),
        *_repartitions(topology),
        *_astray(topology),
        *_unbounded(topology),
        *_writers(topology),
        *_unwritten(topology),
        *(loops := list(_loops(topology))),
        *changelog_findings(topology),
        *folder_findings(folders or {}),
    ]
    if records is not None:
        result += field_findings(topology, records)
        runs = not any(each.severity == "error" or each in loops for each in result)
        result += check_sample(topology, settings, counts, records, runs=runs)
    return Issues(result)


def check_partitions(topology: Topology, partitions: Mapping[str, int]) -> Issues:
    """Check partition counts only: all topics exist, and co-partitioned topics have equal counts.

    Args:
        topology: the topology, from ``builder.build()``.
        partitions: number of partitions of each input and output topic.

    Example:
        >>> from kstreamnb import StreamsBuilder
        >>> builder = StreamsBuilder("even")
        >>> builder.stream("orders").to("out")
        >>> print(check_partitions(builder.build(), {"orders": 4, "out": 4}))
        nothing was found
    """
    check_arguments(check_partitions, locals())
    return Issues(_partition_findings(topology, dict(partitions)))


def _counts(
    topology: Topology, partitions: Mapping[str, int] | int | None, records: Iterable[TopicRecord]
) -> dict[str, int]:
    inner = topology.internal_topics
    read = {topic: 1 for source in topology.sources() for topic in source.topics if topic not in inner}
    if isinstance(partitions, Mapping):
        return dict(partitions)
    for record in records:
        read[record.topic] = max(read.get(record.topic, 1), record.partition + 1)
    return read if partitions is None else dict.fromkeys(read, partitions)


def _partition_findings(topology: Topology, counts: Mapping[str, int]) -> Iterator[Issue]:
    """Find co-partitioned topics, and topics whose records share a store, with unequal partition counts.

    Topics of global tables may have any.
    """
    try:
        topology.partition_counts(counts)
    except TopologyError as error:
        named = [each for each in topology.sources() if any(f'"{topic}"' in error.message for topic in each.topics)]
        origin = error.origin or (named[-1].origin if named else None)
        yield Issue("error", "partitions", error.message, error.hint or "", origin)
        return
    for store, uneven in uneven_stores(topology, counts).items():
        origin = next((node.origin for node in topology.nodes.values() if store in node.stores), None)
        yield Issue("warning", f'store "{store}"', uneven_fact(store, uneven), uneven_remedy(uneven), origin)


def _serde_findings(topology: Topology, config: Config) -> Iterator[Issue]:
    """Find joined topics with different key serdes: different bytes go to different partitions."""
    plan = TaskPlan(topology, (), config=config)
    for group in topology.copartitioned:
        sources = [node for name in group if isinstance(node := topology.nodes[name], Source)]
        serdes = {source.name: plan.key_serde(source.key_serde) for source in sources}
        if len({str(serde) for serde in serdes.values()}) > 1:
            topics = join_list(f'"{_topic(source)}"' for source in sources)
            words = join_list(f'"{_topic(source)}" with "{serdes[source.name]}"' for source in sources)
            fact = f"joined topics are read with different key serdes: {words}; equal keys are serialized differently"
            remedy = "read both with the serdes they were written with, and convert one key with select_key()"
            yield Issue("error", topics, fact, remedy, sources[-1].origin)


def _topic(source: Source) -> str:
    return source.topics[0] if source.topics else str(source.pattern)


def _repartitions(topology: Topology) -> Iterator[Issue]:
    """Find repartitions, which cost a network hop and are needed only after a key change."""
    for cut in topology.description().cuts():
        if cut.short == "repartition asked for":
            sink = next(sink for sink in topology.sinks() if sink.topic == cut.topic)
            fixed = topology.internal_topics[cut.topic].partitions if cut.topic in topology.internal_topics else None
            if fixed is None:
                fact = "it is repartitioned although its key has not changed, which costs a network hop"
                yield Issue("hint", f'topic "{cut.topic}"', fact, "remove repartition()", sink.origin)


def _astray(topology: Topology) -> Iterator[Issue]:
    """Find stores whose records of one key are on several partitions after a key change, because no topic regroups
    them.
    """
    for node in topology.processors():
        if node.dsl != "process" or not node.stores:
            continue
        above = map(topology.nodes.__getitem__, walk(node.parents, lambda name: topology.nodes[name].parents))
        changed = next((each for each in above if each.traits.changes_key and not each.traits.user_code), None)
        if changed is not None:
            fact = f'keys were changed by "{changed.name}": its store sees only records that reached its task'
            yield Issue("warning", f'"{node.name}"', fact, "put repartition() between the two", node.origin)


def _unbounded(topology: Topology) -> Iterator[Issue]:
    """Find buffers and windows without a limit."""
    for node in topology.processors():
        subject, buffer = f'"{node.name}"', node.traits.buffer
        if buffer is not None and buffer.kind == "change" and not buffer.bounded:
            severity: Severity = "hint" if buffer.window_end else "warning"
            wait = f"for {format_duration(buffer.wait_ms)} of stream time"
            waits = "until their window closes" if buffer.window_end else wait
            fact = f"its buffer is unlimited: it keeps a change of every key {waits}"
            remedy = "limit it with BufferConfig.max_records(…) or max_bytes(…)"
            yield Issue(severity, subject, fact, remedy, node.origin)
        if isinstance(node.traits.windows, UnlimitedWindows):
            yield Issue("warning", subject, "its window never ends, so its rows are never removed", "", node.origin)


def _writers(topology: Topology) -> Iterator[Issue]:
    """Order holds within a partition and for a single writer only; two sinks of one node write each record twice."""
    for topic, subs in topic_writers(topology).items():
        parents = (parent for sinks in subs.values() for sink in sinks for parent in sink.parents)
        for parent, sinks in Counter(parents).items():
            if sinks > 1:
                fact = f'{sinks} sinks write the records of node "{parent}" to it: each record is there {sinks} times'
                yield Issue("warning", f'topic "{topic}"', fact, "write to each topic once")
        if len(subs) > 1:
            fact = f"sub-topologies {join_list(map(str, subs))} write to it: the order of their records is undefined"
            yield Issue("warning", f'topic "{topic}"', fact)


def _unwritten(topology: Topology) -> Iterator[Issue]:
    """Find runs that would leave nothing behind."""
    if topology.unwritten:
        fact, _, remedy = topology.unwritten.partition(": ")
        yield Issue("warning", "the topology", fact, remedy)


_ONE_FOR_ONE = frozenset({
    *("map", "map_values", "select_key", "peek", "merge", "repartition", "to_stream", "group_by", "group_by_key"),
    *("count", "reduce", "aggregate"),
})  # fmt: skip
"""Operators that forward a record for each one that they get, so that they cannot end a loop."""


def _loops(topology: Topology) -> Iterator[Issue]:
    """Find sinks whose topic feeds them without an operator that may stop a record on the way."""
    sinks = [sink for sink in topology.sinks() if isinstance(sink.topic, str)]
    for sink in sinks:
        source = next((each for each in _feeding(topology, sink, sinks) if each.reads(str(sink.topic))), None)
        if source is not None and sink.topic not in topology.internal_topics:
            fact = "its records are written back to it, so processing never ends"
            remedy = "write to another topic; or end the loop with a filter"
            yield Issue("warning", f'topic "{sink.topic}"', fact, remedy, sink.origin or source.origin)


def _feeding(topology: Topology, sink: Sink, sinks: list[Sink]) -> Iterator[Source]:
    """Yield the sources whose every record reaches a sink, also through other topics."""

    def onward(name: str) -> Iterable[str]:
        node = topology.nodes[name]
        if isinstance(node, Source):
            return [parent for each in sinks if node.reads(str(each.topic)) for parent in each.parents]
        return node.parents if isinstance(node, ProcessorNode) and node.dsl in _ONE_FOR_ONE else ()

    above = map(topology.nodes.__getitem__, walk(sink.parents, onward))
    return (node for node in above if isinstance(node, Source))
