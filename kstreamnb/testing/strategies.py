"""Generates samples with Hypothesis, from a topology and an example of its data, to test properties of its results."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from sys import float_info
from typing import TYPE_CHECKING, Any

from kstreamnb.core.arguments import at_least, check_arguments
from kstreamnb.core.formatting import pluralize
from kstreamnb.core.record import TopicRecord
from kstreamnb.core.tables import Tabular
from kstreamnb.errors import ConfigError, extra
from kstreamnb.hints import message_of
from kstreamnb.replays.replay import Replay
from kstreamnb.replays.replay_sample import replay
from kstreamnb.samples.columns import number_offsets
from kstreamnb.samples.sample import Sample
from kstreamnb.topology.topology import Topology

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

_REACH = 2  # generated numbers reach this many spans beyond those of the example


@extra("testing")
def samples(topology: Topology, example: Iterable[TopicRecord], *, records: int = 12) -> SearchStrategy[Sample]:
    """Return a Hypothesis strategy of samples that look like an example.

    Keys are those of the example. Values have the example's fields and types, with values near those of the example; a
    field may be missing, and a value null, only if that occurs in the example. Times are within the example's span and
    a little beyond, in any order, so that windows close and records are late. Hypothesis shrinks towards few records,
    the first values of the example and early times.

    Args:
        topology: the topology; topics that it does not read are left out.
        example: typical records, such as a `Sample`.
        records: the maximum number of records in a sample. Default: 12.

    Raises: ConfigError if the example has no record of a topic that the topology reads; MissingPackageError without
        Hypothesis.

    Example:
        >>> from hypothesis import find
        >>> from kstreamnb import StreamsBuilder
        >>> builder = StreamsBuilder("shop")
        >>> builder.stream("orders").to("copies")
        >>> example = Sample.from_records([("orders", 0, 0, 0, "ann", {"n": 3}), ("orders", 0, 1, 9, "bob", {"n": 5})])
        >>> small = find(samples(builder.build(), example), lambda sample: len(sample) == 2)
        >>> [(record.key, record.value) for record in small]
        [('ann', {'n': 3}), ('ann', {'n': 3})]
    """
    check_arguments(samples, locals())
    at_least(1, records, "records")
    from hypothesis import strategies as st

    known = [each for each in example if any(source.reads(each.topic) for source in topology.sources())]
    if not known:
        topics = [topic for source in topology.sources() for topic in source.topics]
        fact = "the example has no record that the topology reads"
        raise ConfigError(fact, hint=f"add records of {', '.join(topics)}")
    topics = list(dict.fromkeys(each.topic for each in known))
    each = st.sampled_from(topics).flatmap(lambda topic: _record(topic, [one for one in known if one.topic == topic]))
    return st.lists(each, min_size=1, max_size=records).map(lambda made: Sample.from_records(number_offsets(made)))


def _record(topic: str, known: Sequence[TopicRecord]) -> SearchStrategy[TopicRecord]:
    from hypothesis import strategies as st

    times = [record.timestamp for record in known]
    first, last = min(times), max(times)
    keys = _distinct([record.key for record in known])
    return st.builds(
        lambda key, value, after: TopicRecord(topic, -1, -1, first + after, key, value),
        st.sampled_from(keys),
        _values([record.value for record in known]),
        st.integers(0, (last - first) + max((last - first) // 2, 1)),
    )


def _values(seen: Sequence[object]) -> SearchStrategy[Any]:
    """Return a strategy for values like some that were seen: by their types, and near them."""
    from hypothesis import strategies as st

    options: list[SearchStrategy[Any]] = []
    for kind in dict.fromkeys(type(value) for value in seen):
        of_kind: list[Any] = [value for value in seen if type(value) is kind]
        if kind is dict:
            options.append(_dicts(of_kind))
        elif kind is list:
            inner = [part for value in of_kind for part in value]
            longest = max(len(value) for value in of_kind)
            options.append(st.lists(_values(inner), max_size=longest + 1) if inner else st.just([]))
        else:
            options.append(st.sampled_from(_distinct(of_kind)))
            finite = [value for value in of_kind if kind in (int, float) and abs(value) < inf]
            options += [_numbers(kind, finite)] if finite else []
    return st.one_of(options)


def _numbers(kind: type, seen: Sequence[float]) -> SearchStrategy[Any]:
    from hypothesis import strategies as st

    low, high = min(seen), max(seen)
    span = _REACH * max(high - low, 1)
    least = 0 if low >= 0 else low - span  # what never was negative stays so
    if kind is int:
        return st.integers(int(least), int(high + span))
    return st.floats(max(least, -float_info.max), min(high + span, float_info.max))


def _dicts(seen: Sequence[Mapping[str, object]]) -> SearchStrategy[Any]:
    from hypothesis import strategies as st

    names = dict.fromkeys(name for value in seen for name in value)
    fields = {name: _values([value[name] for value in seen if name in value]) for name in names}
    always = {name: fields[name] for name in names if all(name in value for value in seen)}
    return st.fixed_dictionaries(always, optional={name: fields[name] for name in names if name not in always})


def _distinct(values: Iterable[object]) -> list[Any]:
    """Return different values in order; they need no hash."""
    result: list[Any] = []
    for value in values:
        if not any(type(value) is type(known) and value == known for known in result):
            result.append(value)
    return result


@dataclass(frozen=True, repr=False)
class Counterexample(Tabular):
    """The smallest sample found that violates a law, with its replay; ``error`` is what the law or the run raised.

    Args:
        sample: the smallest sample that violates the law.
        replay: its replay, or None if the topology did not run.
        error: what the law or the run raised. Default: None, the law returned False.

    Example:
        >>> print(Counterexample(Sample.from_records([("orders", 0, 0, 7, "ann", 1)]), None))
        the law is broken by 1 record: it is false
        topic  | key | value | time | partition
        -------+-----+-------+------+----------
        orders | ann | 1     | 7    | 0
    """

    sample: Sample
    replay: Replay | None
    error: BaseException | None = None

    @property
    def header(self) -> Sequence[str]:
        """Columns of the sample."""
        return self.sample.shown_cells()[0]

    @property
    def title(self) -> str:
        """Describe how the law is broken."""
        because = "it is false" if self.error is None else f"{type(self.error).__name__}: {message_of(self.error)}"
        return f"the law is broken by {pluralize(len(self.sample), 'record')}: {because}"

    def table(self) -> Iterable[Sequence[str]]:
        """Return the records."""
        return self.sample.shown_cells()[1]

    def more(self) -> Iterable[str]:
        """Return the replay in one line."""
        return () if self.replay is None else (str(self.replay),)


@extra("testing")
def counterexample(
    topology: Topology,
    example: Iterable[TopicRecord],
    law: Callable[[Replay], object],
    *,
    records: int = 12,
    examples: int = 200,
    partitions: int = 1,
) -> Counterexample | None:
    """Search for the smallest sample that violates a law; the same search gives the same sample.

    Args:
        topology: the topology.
        example: typical records, such as a `Sample`.
        law: called with the `Replay` of each sample; a sample violates the law if it returns False or raises.
        records: the maximum number of records in a sample. Default: 12.
        examples: the number of samples to try. Default: 200.
        partitions: partitions of every input topic. Default: 1.

    Returns: the sample as a table, with its replay; None if no sample violates the law.

    Example:
        >>> from kstreamnb import StreamsBuilder
        >>> builder = StreamsBuilder("alerts")
        >>> paid = builder.stream("payments").group_by_key().count(store="paid").to_stream()
        >>> paid.filter(lambda key, count: count >= 2).to("alerts")
        >>> example = Sample.from_records([("payments", 0, 0, 0, "ann", 5), ("payments", 0, 1, 9, "bob", 7)])
        >>> broken = counterexample(
        ...     builder.build(), example, lambda run: not run.output("alerts") or len(run.steps) >= 3
        ... )
        >>> [(record.key, record.value) for record in broken.sample]
        [('ann', 5), ('ann', 5)]
    """
    check_arguments(counterexample, locals())
    at_least(1, examples, "examples")
    from hypothesis import HealthCheck, Phase, find, settings
    from hypothesis.errors import NoSuchExample

    def verdict(sample: Sample) -> Counterexample | None:
        run = None
        try:
            run = replay(topology, sample, partitions)
            holds = law(run)  # None if it asserts; a comparison of NumPy's or pandas' has another False
            return None if holds is None or holds else Counterexample(sample, run)
        except Exception as error:  # the law belongs to the user: it may raise anything
            return Counterexample(sample, run or getattr(error, "replay", None), error)

    quiet = settings(
        max_examples=examples,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
    try:
        drawn = samples(topology, example, records=records)
        smallest = find(drawn, lambda sample: verdict(sample) is not None, settings=quiet)
    except NoSuchExample:
        return None
    return verdict(smallest)
