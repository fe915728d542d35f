"""Finds races: processes a sample in many valid orders and compares the results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from random import Random
from typing import Literal

from kstreamnb.core.arguments import at_least, check_arguments
from kstreamnb.core.codec import decode
from kstreamnb.core.formatting import format_value, join_list, pluralize
from kstreamnb.core.progress import under_way
from kstreamnb.core.record import TopicRecord
from kstreamnb.core.tables import Tabular
from kstreamnb.errors import KStreamError, SerdeError
from kstreamnb.recording.record_text import describe_content
from kstreamnb.recording.store_rows import stored_rows
from kstreamnb.runtime.context.config import Config
from kstreamnb.testdriver.execution.input_batch import InputBatch
from kstreamnb.testdriver.execution.serializer import InputRecord
from kstreamnb.testdriver.execution.strategy import process
from kstreamnb.testdriver.execution.task_group import TaskGroup
from kstreamnb.testdriver.races.random_schedule import Move, RandomSchedule
from kstreamnb.testdriver.sample_partitions import Partitions, partitions_for
from kstreamnb.testdriver.topology_test_driver import TopologyTestDriver
from kstreamnb.topology.topology import Topology

RaceKind = Literal["result", "history", "order"]
_KINDS: tuple[RaceKind, ...] = ("result", "history", "order")
_MEANING = {
    "result": "the last value of a key depends on the processing order",
    "history": "intermediate values depend on the processing order, the last one does not",
    "order": "the same values arrive in another order",
}
_ATTEMPTS, _SHOWN, _FEW, _FEW_RECORDS = 400, 20, 24, 6


@dataclass(frozen=True)
class KeyDifference:
    """Results for a key in the usual order and in another one; ``where`` is a topic or a store."""

    where: str
    key: str
    usual: tuple[object, ...]
    other: tuple[object, ...]

    @property
    def kind(self) -> RaceKind:
        """The severity: "result", "history" or "order"."""
        if self.usual[-1:] != self.other[-1:] and _multiset(self.usual) != _multiset(self.other):
            return "result"
        return "history" if _multiset(self.usual) != _multiset(self.other) else "order"


@dataclass(frozen=True, repr=False)
class Race(Tabular):
    """A processing order of few records that gives another result.

    Attributes:
        kind: "result" (a last value differs), "history" (intermediate values differ) or "order".
        sample: the records; no difference was found without any one of them.
        moves: the order of deliveries and processing.
        differences: differences by topic or store, and key.
    """

    kind: RaceKind
    sample: tuple[TopicRecord, ...]
    moves: tuple[Move, ...]
    differences: tuple[KeyDifference, ...]

    header = ("where", "key", "in the usual order", "in this order")

    @property
    def title(self) -> str:
        """Name the kind of race."""
        return f"race with {pluralize(len(self.sample), 'record')}: {_MEANING[self.kind]}"

    def table(self) -> Iterator[tuple[str, ...]]:
        """Yield the differences."""
        for each in self.differences[:_SHOWN]:
            usual, other = (", ".join(map(format_value, values)) for values in (each.usual, each.other))
            yield each.where, each.key, usual, other

    def more(self) -> Iterator[str]:
        """Yield the records and the moves."""
        for record in self.sample[:_FEW]:
            content = describe_content(record.key, record.value, record.timestamp)
            yield f"record of {record.topic}-{record.partition}: {content}"
        for number, move in enumerate(self.moves[:_FEW], 1):
            yield f"move {number}: {move}"
        if len(self.moves) > _FEW:
            yield f"{_FEW} of {len(self.moves):,} moves are shown"


@dataclass(frozen=True, repr=False)
class RaceReport(Tabular):
    """Results of a sample in many orders; false if they are all equal.

    Attributes:
        schedules: the number of orders tried.
        outcomes: the number of different outcomes.
        counts: the number of orders by kind of difference.
        race: the worst race, as short as possible; None if there is none.
        seed: the seed of the orders.

    Example:
        >>> from kstreamnb import StreamsBuilder
        >>> builder = StreamsBuilder("clicks")
        >>> builder.stream("click").left_join(builder.table("tier"), lambda click, tier: [click, tier]).to("out")
        >>> sample = [TopicRecord("tier", 0, 0, 0, "anna", "gold"), TopicRecord("click", 0, 0, 5, "anna", "home")]
        >>> print(find_races(builder.build(), sample, schedules=20).race)
        race with 2 records: the last value of a key depends on the processing order
        where       | key    | in the usual order | in this order
        ------------+--------+--------------------+---------------
        topic "out" | "anna" | ["home", "gold"]   | ["home", null]
        record of tier-0: key "anna", value "gold", time 0
        record of click-0: key "anna", value "home", time 5
        move 1: click-0 delivers 1 record
        move 2: task 0_0 processes 1 record
        move 3: tier-0 delivers 1 record
        move 4: task 0_0 processes 1 record
    """

    schedules: int
    outcomes: int
    counts: Mapping[RaceKind, int]
    race: Race | None
    seed: int

    header = Race.header

    def __bool__(self) -> bool:
        return self.race is not None

    @property
    def title(self) -> str:
        """Count the orders that differ, by kind."""
        tried = f"{pluralize(self.schedules, 'order')} (seed {self.seed})"
        if self.race is None:
            return f"no race found: {tried}, one outcome"
        parts = [f"{self.counts[kind]:,} differ in the {kind}" for kind in _KINDS if self.counts.get(kind)]
        return f"race found: {tried}, {pluralize(self.outcomes, 'outcome')}; {join_list(parts)}"

    def table(self) -> Iterator[tuple[str, ...]]:
        """Yield the differences of the shortest race."""
        return iter(()) if self.race is None else self.race.table()

    def more(self) -> Iterator[str]:
        """Yield the records and moves of the shortest race."""
        if self.race is not None:
            yield self.race.title
            yield from self.race.more()


def find_races(
    topology: Topology,
    sample: Iterable[TopicRecord],
    schedules: int = 200,
    seed: int = 0,
    *,
    partitions: Partitions | None = None,
    config: Config | Mapping[str, object] | None = None,
) -> RaceReport:
    """Process a sample in other orders that could occur on a cluster, and report results that differ.

    In each order, when partitions deliver records and which task runs next is random. Values are compared by topic and
    key, and stores at the end; timestamps and the order between keys are not compared. A race is reduced until no
    record can be left out, usually to the fewest records that show it.

    With ``max_task_idle`` tasks wait for partitions that have not delivered yet, as in Kafka.

    Args:
        topology: the topology to run.
        sample: records of any topics, such as a `Sample`.
        schedules: the number of orders to try; default 200.
        seed: the seed of the orders: the same seed gives the same orders; default 0.
        partitions: partitions of topics by name, or one number for all; with one partition everywhere races are rare.
            Default: as for `replay`, the fewest that include the partitions of all records.
        config: the application's settings. Default: `Config()`.

    Example:
        >>> topology = Topology().add_source("in", "orders").add_sink("out", "copies", "in")
        >>> print(find_races(topology, [TopicRecord("orders", -1, -1, 0, "shoe", 1)], schedules=10))
        no race found: 10 orders (seed 0), one outcome
    """
    check_arguments(find_races, locals())
    at_least(1, schedules, "schedules")
    given = list(sample)
    runs = _Runs(topology, Config.of(config), partitions_for(topology, given, partitions))
    records = runs.placed(given)
    with under_way("orders", schedules) as done:
        usual, outcomes, result = runs.usual(records), dict[str, None](), Counter[RaceKind]()
        for number in range(schedules):
            differences = usual.differences(runs.shuffled(records, seed + number)[0])
            if differences:
                outcomes[repr(differences)] = None
                result[differences[0].kind] += 1
            done(1)
        race = _shrunk(runs, records, min(result, key=_KINDS.index), seed, schedules) if result else None
    return RaceReport(schedules, len(outcomes) + 1, dict(result), race, seed)


class _Outcome:
    """The output and state of a run, comparable with those of another run."""

    def __init__(self, tasks: TaskGroup, error: KStreamError | None) -> None:
        self._tasks = tasks
        self._error = None if error is None else (getattr(error, "node", ""), error.message)
        self._written: dict[tuple[str, object], list[object]] = {}
        for topic, log in tasks.logs.items():
            if tasks.router.route(topic) is None and not log.named:
                for _, _, _, key, value, _ in log.rows:
                    self._written.setdefault((topic, key), []).append(value)
        self._kept = {
            (task_id, name): {key: row[0] if store.timestamped else row for key, row in store.raw.items()}
            for task_id, task in tasks.by_id.items()
            for name, store in task.stores.items()
            if store.spec.kind != "internal" and not store.spec.retain_duplicates
        }

    def differences(self, other: _Outcome) -> tuple[KeyDifference, ...]:
        """Return keys whose results differ in another run, the worst first."""
        if (self._written, self._kept, self._error) == (other._written, other._kept, other._error):
            return ()
        own, others = self._shown(), other._shown()
        pairs = ((subject, own.get(subject, ()), others.get(subject, ())) for subject in sorted({**own, **others}))
        result = [KeyDifference(*subject, mine, other) for subject, mine, other in pairs if mine != other]
        return tuple(sorted(result, key=lambda each: _KINDS.index(each.kind)))

    def _shown(self) -> dict[tuple[str, str], tuple[object, ...]]:
        """Return deserialized values by topic or store, and by key."""
        result: dict[tuple[str, str], list[object]] = {}
        for (topic, key), values in self._written.items():
            serdes = self._tasks.logs[topic].serdes or self._tasks.router.output_serdes(topic)
            if serdes is not None:
                with suppress(SerdeError):  # a handler may have sent a dead letter there, which stays bytes
                    key, values = decode(serdes[0], key), [decode(serdes[1], value) for value in values]
            result.setdefault((f'topic "{topic}"', format_value(key)), []).extend(values)
        for task_id, name in self._kept:
            store = self._tasks.by_id[task_id].stores[name]
            for row in stored_rows(task_id, store, store.snapshot()):
                result.setdefault((f'store "{name}"', format_value(row.key)), []).append(row.value)
        if self._error is not None:
            result["the run fails", self._error[0]] = [self._error[1]]
        return {subject: tuple(values) for subject, values in result.items()}


class _Runs:
    """Runs a topology in the usual order and in others, each time in a new driver."""

    def __init__(self, topology: Topology, config: Config, partitions: Partitions) -> None:
        self._driver = partial(TopologyTestDriver, topology, config, partitions=partitions, verify=False)
        self._patient = config.max_task_idle_ms > 0

    def placed(self, sample: list[TopicRecord]) -> list[TopicRecord]:
        """Return the records with partitions, chosen by key if missing."""
        serialize = self._driver().router.serialize
        return [record._replace(partition=serialize([record])[0][1]) for record in sample]

    def usual(self, records: list[TopicRecord]) -> _Outcome:
        """Run in kstreamnb's usual order."""
        return self._outcome(records, lambda tasks, roots: process(tasks.router, tasks, InputBatch.serialized(roots)))

    def shuffled(self, records: list[TopicRecord], seed: int) -> tuple[_Outcome, tuple[Move, ...]]:
        """Run in an order drawn from a seed; return the result and that order."""
        moves, random = list[Move](), Random(seed)

        def run(tasks: TaskGroup, roots: list[InputRecord]) -> None:
            RandomSchedule(tasks, roots, random, moves, patient=self._patient).run()

        return self._outcome(records, run), tuple(moves)

    def _outcome(self, records: list[TopicRecord], run: Callable[[TaskGroup, list[InputRecord]], None]) -> _Outcome:
        tasks = self._driver().tasks
        try:
            run(tasks, tasks.router.serialize(records))
        except KStreamError as error:
            return _Outcome(tasks, error)
        return _Outcome(tasks, None)


def _multiset(values: tuple[object, ...]) -> list[str]:
    return sorted(map(repr, values))


def _shrunk(runs: _Runs, records: list[TopicRecord], kind: RaceKind, seed: int, schedules: int) -> Race:
    """Reduce a race to as few records as possible, then to as few moves as possible."""
    left = [_ATTEMPTS]

    def race_of(some: list[TopicRecord], tries: int) -> Race | None:
        usual, best = runs.usual(some), None
        for number in range(tries):
            left[0] -= 1
            other, moves = runs.shuffled(some, seed + number)
            differences = usual.differences(other)
            if differences and differences[0].kind == kind and (best is None or len(moves) < len(best.moves)):
                best = Race(kind, tuple(some), moves, differences)
                if tries <= _FEW:
                    break
        return best

    result = race_of(records, schedules)
    assert result is not None, "an order with this difference was seen among the same seeds"
    left[0] = _ATTEMPTS
    chunk = max(len(records) // 2, 1)
    while left[0] > 0:
        before, kept, at = result, list(result.sample), 0
        while at < len(kept) and left[0] > 0:
            fewer = kept[:at] + kept[at + chunk :]
            smaller = race_of(fewer, _FEW) if fewer else None
            if smaller is None:
                at += chunk
            else:
                result, kept = smaller, fewer
        if chunk == 1 and result is before:
            break
        chunk = max(chunk // 2, 1)
    result = _least(result, lambda some: race_of(some, _FEW))
    return race_of(list(result.sample), 4 * _FEW) or result


def _least(race: Race, race_of: Callable[[list[TopicRecord]], Race | None]) -> Race:
    """Try all subsets of a small sample: single records are needed, but several at once may not be."""
    sizes = range(2, len(race.sample) - 1) if len(race.sample) <= _FEW_RECORDS else ()
    smaller = (race_of(list(some)) for size in sizes for some in combinations(race.sample, size))
    return next((each for each in smaller if each is not None), race)
