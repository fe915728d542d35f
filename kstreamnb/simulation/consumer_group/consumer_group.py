"""`ConsumerGroup`: members join, leave, crash and take over, on a simulated clock."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import Literal

from kstreamnb.core.arguments import at_least, check_arguments
from kstreamnb.core.codec import partition_for
from kstreamnb.core.formatting import pluralize
from kstreamnb.core.serde import Serde
from kstreamnb.core.serdes import serde_of
from kstreamnb.core.time import duration_ms, format_duration
from kstreamnb.errors import EngineError
from kstreamnb.hints import expect_known
from kstreamnb.recording.offset_table import OffsetRow, OffsetTable
from kstreamnb.simulation.consumer_group.assignors import Assignor, check_assignment, sticky
from kstreamnb.simulation.consumer_group.members import Listener, Member, choose_standbys, settle
from kstreamnb.simulation.consumer_group.offset_log import OffsetLog
from kstreamnb.simulation.consumer_group.state import TaskStates
from kstreamnb.simulation.consumer_group.views import (
    GroupEvent,
    GroupEvents,
    GroupPauses,
    GroupPositions,
    KeyHolder,
    Pause,
    Position,
)
from kstreamnb.topology.nodes import grouped


class ConsumerGroup(OffsetTable):
    """A group of consumers, or of stream threads with state, as Kafka's coordinator manages it.

    Each partition has one owner. Members send heartbeats automatically until they crash; a member that received records
    and does not poll again in time is removed. With ``state`` a partition moves only to a member that has restored its
    changelog to within ``acceptable_lag`` records of the end; until then the member warms up, and the group probes.

    Args:
        id: the group's name.
        topics: partition counts by topic, or the log of another group.
        assignor: function that assigns partitions to members; default `sticky`.
        protocol: "cooperative" pauses only partitions that move, "eager" pauses all; default "cooperative".
        auto_offset_reset: where to start without a committed offset: "latest" (default) or "earliest".
        standby_replicas: standby copies of each partition's state; default 0.
        state: changelog records of each partition, or one number for all; default 0.
        loads: the cost of each partition, for assignors that take it into account; default 1.
        session_timeout: time without heartbeats after which a crashed member is removed. Default: "45s".
        max_poll_interval: longest time between two polls of a member that received records. Default: "5m".
        max_poll_records: maximum number of records that a poll returns. Default: 500.
        restore_rate: changelog records that a warming member restores per second. Default: 1,000.
        acceptable_lag: number of changelog records that a new owner may still have to restore. Default: 10,000.
        max_warmups: maximum number of partitions that warm up at once. Default: 2.
        probing_interval: time between two checks whether a warm-up has finished. Default: "10m".

    Units: ``restore_rate`` is records per second, ``acceptable_lag`` records. Defaults are Kafka's.

    Example:
        >>> group = ConsumerGroup("readers", {"logs": 2})
        >>> group.join("c1")
        >>> group.join("c2")
        >>> group.assignment
        {'c1': ('logs-0',), 'c2': ('logs-1',)}
        >>> group.crash("c1")
        >>> group.advance_wall_clock_time("45s")
        >>> group.assignment, group.events[-1].moved
        ({'c2': ('logs-0', 'logs-1')}, 1)
    """

    header = ("member", "owns", "stands by for", "warms up")

    def __init__(
        self,
        id: str,
        topics: Mapping[str, int] | OffsetLog,
        *,
        assignor: Assignor = sticky,
        protocol: Literal["cooperative", "eager"] = "cooperative",
        auto_offset_reset: Literal["latest", "earliest"] = "latest",
        session_timeout: timedelta | str = "45s",
        max_poll_interval: timedelta | str = "5m",
        max_poll_records: int = 500,
        standby_replicas: int = 0,
        state: Mapping[str, int] | int = 0,
        restore_rate: int = 1_000,
        acceptable_lag: int = 10_000,
        max_warmups: int = 2,
        probing_interval: timedelta | str = "10m",
        loads: Mapping[str, int] | None = None,
    ) -> None:
        check_arguments(ConsumerGroup.__init__, locals())
        at_least(1, max_poll_records, "max_poll_records")
        at_least(0, standby_replicas, "standby_replicas")
        at_least(1, restore_rate, "restore_rate")
        at_least(0, acceptable_lag, "acceptable_lag")
        at_least(0, max_warmups, "max_warmups")
        self.id = id
        self.log = topics if isinstance(topics, OffsetLog) else OffsetLog(topics)
        self.now_ms = 0
        self.committed: dict[str, tuple[int, str]] = {}
        self._assignor, self._is_eager = assignor, protocol == "eager"
        self._reset_to = auto_offset_reset
        self._session_ms = duration_ms(session_timeout, "session timeout")
        self._poll_ms = duration_ms(max_poll_interval, "longest interval between polls")
        self._probe_ms = duration_ms(probing_interval, "interval of probing")
        self._most = max_poll_records
        self._replicas = standby_replicas
        self._loads = loads or {}
        sizes = state if isinstance(state, Mapping) else dict.fromkeys(self.log.partitions, state)
        self._states = TaskStates(sizes, restore_rate, acceptable_lag, max_warmups)
        self._members: dict[str, Member] = {}
        self._owners: dict[str, str] = {}
        self._known: tuple[str, ...] = ()
        self._gone: dict[str, str] = {}
        self._probe_at_ms: int | None = None
        self._events: list[GroupEvent] = []
        self._stopped: dict[str, int] = {}
        self._pauses: list[Pause] = []

    # --- state of the group ---
    @property
    def events(self) -> GroupEvents:
        """All events, in order."""
        return GroupEvents(tuple(self._events))

    @property
    def assignment(self) -> dict[str, tuple[str, ...]]:
        """The partitions of each member; a member without any is idle."""
        return {name: self._sorted(member.owned) for name, member in self._members.items()}

    @property
    def standbys(self) -> dict[str, tuple[str, ...]]:
        """The partitions for which each member keeps a standby copy."""
        return choose_standbys(self._members.values(), self._replicas)

    @property
    def warmups(self) -> dict[str, str]:
        """The member that warms up for each partition."""
        return dict(self._states.warming)

    @property
    def positions(self) -> GroupPositions:
        """The group's positions in each partition."""
        return GroupPositions(self._position(each, self._owners.get(each, "")) for each in self.log.partitions)

    @property
    def pauses(self) -> GroupPauses:
        """How long each moved partition was not processed; a latency target must allow for these pauses."""
        return GroupPauses(self._pauses)

    @property
    def title(self) -> str:
        """Count members and partitions."""
        idle = sum(not member.owned for member in self._members.values())
        members, partitions = pluralize(len(self._members), "member"), pluralize(len(self._known), "partition")
        words = f'group "{self.id}": {members}, {partitions}'
        return f"{words}; {idle} waiting" if idle else words

    def table(self) -> Iterator[tuple[str, ...]]:
        """Yield one row per member."""
        standbys = self.standbys
        for name, partitions in self.assignment.items():
            warmups = [partition for partition, member in self.warmups.items() if member == name]
            yield name, ", ".join(partitions), ", ".join(standbys.get(name, ())), ", ".join(warmups)

    @property
    def offset_rows(self) -> Iterator[OffsetRow]:
        """A row for each partition, with the group's offsets."""
        return self.positions.offset_rows

    def more(self) -> Iterator[str]:
        """Explain why members are idle."""
        if any(not member.owned for member in self._members.values()):
            yield f"max parallelism {len(self._known)}: a partition has one owner, so additional members are idle"

    # --- members ---
    def join(self, name: str, *, capacity: int = 1, listener: Listener | None = None) -> None:
        """Add a member, or restart a crashed one with its state directory.

        Args:
            name: name of the member.
            capacity: number of its stream threads; partitions are shared out in proportion. Default: 1.
            listener: function ``(event, partitions) -> None``, called when partitions come or go. Default: None.

        Raises: EngineError if a live member has this name.
        """
        check_arguments(ConsumerGroup.join, locals())
        at_least(1, capacity, "capacity")
        known = self._members.get(name)
        if known is not None and known.silent_since_ms is None:
            raise EngineError(f'"{name}" is already a member of group "{self.id}"')
        owned = known.owned if known is not None else ()
        self._members[name] = Member(name, capacity, listener, owned)
        self._gone.pop(name, None)
        self._log_event("joined", name)
        self._rebalance()

    def leave(self, name: str) -> None:
        """Remove a member that shuts down cleanly: others take over at once.

        Args:
            name: name of the member.

        Raises: EngineError if the group has no such member, or it has crashed.
        """
        check_arguments(ConsumerGroup.leave, locals())
        self._remove(self._member(name), "left")

    def crash(self, name: str) -> None:
        """Stop a member that does not leave the group, which notices only when the session times out.

        Args:
            name: name of the member.

        Raises: EngineError if the group has no such member, or it has crashed.
        """
        check_arguments(ConsumerGroup.crash, locals())
        member = self._member(name)
        member.silent_since_ms = self.now_ms
        self._log_event("crashed", name, member.owned)

    def advance_wall_clock_time(self, by: timedelta | str) -> None:
        """Advance the clock: sessions and polls time out, warm-ups progress, the group probes.

        Args:
            by: duration such as "45s".
        """
        by_ms = duration_ms(by, "advance of the wall clock")
        at_least(0, by_ms, "advance of the wall clock")
        end = self.now_ms + by_ms
        self._notice_partitions()
        while (due := min((at_ms for at_ms, _ in self._due()), default=end + 1)) <= end:
            self._pass_time(due)
            for at_ms, happen in self._due():  # lazily: an event may change what is due next
                if at_ms <= due:
                    happen()
        self._pass_time(end)

    # --- actions of a member ---
    def poll(
        self, name: str, *, max_records: int | None = None, timeout: timedelta | str = "1s"
    ) -> tuple[tuple[str, int], ...]:
        """Return partition and offset of the next records; if there are none, wait until the timeout.

        Args:
            name: name of the member.
            max_records: maximum number of records. Default: the group's ``max_poll_records``.
            timeout: how long to wait for records, on the simulated clock. Default: "1s".

        Raises: EngineError if the group has no such member, or it has crashed.
        """
        check_arguments(ConsumerGroup.poll, locals())
        self._notice_partitions()
        member = self._member(name)
        member.busy_since_ms = None
        taken: list[tuple[str, int]] = []
        for partition in self._sorted(member.owned):
            first = self._start_of(member, partition)
            last = min(self.log[partition].high, first + (max_records or self._most) - len(taken))
            taken += [(partition, offset) for offset in range(first, last)]
            member.positions[partition] = max(first, last)
        if taken:
            member.busy_since_ms = self.now_ms
            read = dict.fromkeys(partition for partition, _ in taken)
            self._log_event("polled", name, read, pluralize(len(taken), "record"))
        else:
            self.advance_wall_clock_time(timeout)
        return tuple(taken)

    def commit(self, name: str, metadata: str = "") -> dict[str, int]:
        """Commit the offset after the member's last record, with metadata; return offsets by partition.

        Args:
            name: name of the member.
            metadata: text that is stored with the offsets. Default: "".

        Raises: EngineError if the group has no such member, or it has crashed.
        """
        check_arguments(ConsumerGroup.commit, locals())
        member = self._member(name)
        own = {each: member.positions[each] for each in self._sorted(member.owned) if each in member.positions}
        self.committed |= {partition: (offset, metadata) for partition, offset in own.items()}
        self._log_event("committed", name, own, ", ".join(map(str, own.values())))
        return own

    def seek(self, name: str, partition: str, offset: int) -> None:
        """Move a member's position; committed offsets stay until its next commit.

        Args:
            name: name of the member.
            partition: name of the partition, such as "logs-0".
            offset: the next offset to read.

        Raises: EngineError if the member does not own the partition.
        """
        check_arguments(ConsumerGroup.seek, locals())
        at_least(0, offset, "offset")
        member = self._member(name)
        if partition not in member.owned:
            hint = f"it owns {', '.join(member.owned) or 'nothing'}"
            raise EngineError(f'"{name}" does not own "{partition}"', hint=hint)
        member.positions[partition] = offset

    def holder_of(self, topic: str, key: object, *, key_serde: Serde | str = "string") -> KeyHolder:
        """Return the member that serves a key, as ``queryMetadataForKey`` in Java does.

        This may be a crashed member until the group has noticed the crash. If members are named by their addresses,
        such as "10.0.0.7:8080", the result is the address to query.

        Args:
            topic: the topic that feeds the store, directly or by repartitioning.
            key: the key.
            key_serde: serde of the topic's keys, or its name; default "string".

        Raises: EngineError if the group does not read the topic.

        Example:
            >>> group = ConsumerGroup("clicks", {"clicks": 4})
            >>> for address in ("10.0.0.7:8080", "10.0.0.8:8080"):
            ...     group.join(address)
            >>> group.holder_of("clicks", "u2").member
            '10.0.0.8:8080'
        """
        check_arguments(ConsumerGroup.holder_of, locals())
        partitions = grouped(self.log.partitions, lambda partition: partition.rpartition("-")[0])
        expect_known("topic", [topic], partitions, error=EngineError)
        own = partitions[topic]
        data = serde_of(key_serde).serialize(key)
        partition = own[0 if data is None else partition_for(data, len(own))]
        owner, *_ = [*(name for name, held in self.assignment.items() if partition in held), ""]
        return KeyHolder(partition, owner, tuple(name for name, held in self.standbys.items() if partition in held))

    def reset_offsets(
        self, to: Literal["earliest", "latest"] | int, *, dry_run: bool = False
    ) -> dict[str, tuple[int | None, int]]:
        """Commit other offsets for a group without members; return old and new offsets by partition.

        Args:
            to: "earliest", "latest", or an offset that is limited to those that exist.
            dry_run: only return what would change. Default: False.

        Raises: EngineError if the group has members.
        """
        check_arguments(ConsumerGroup.reset_offsets, locals())
        if self._members:
            detail = f"members: {', '.join(self._members)}"
            raise EngineError(f'group "{self.id}" is active', detail=detail, hint="stop them first")
        result = {}
        for partition in self.log.partitions:
            log = self.log[partition]
            new = log.start if to == "earliest" else log.high if to == "latest" else min(max(to, log.start), log.high)
            result[partition] = (self.committed[partition][0] if partition in self.committed else None, new)
        if not dry_run:
            self.committed |= {partition: (new, "") for partition, (_, new) in result.items()}
            self._log_event("reset", "", result, ", ".join(f"{old} → {new}" for old, new in result.values()))
        return result

    # --- the coordinator ---
    def _rebalance(self, reason: str = "rebalanced") -> None:
        self._known, self._probe_at_ms = self.log.partitions, None
        members, before = self._members, self._owners
        if not members:
            return
        loads = {partition: self._loads.get(partition, 1) for partition in self._known}
        capacities = {name: member.capacity for name, member in members.items()}
        wanted = check_assignment(self._assignor(loads, capacities, self._previous()), self._known, members)
        now, warmups = settle(wanted, before, self._states)
        self._owners = {partition: name for name, partitions in now.items() for partition in partitions}
        moved = [partition for partition, name in self._owners.items() if before.get(partition, name) != name]
        for name, member in members.items():
            kept = () if self._is_eager else now[name]
            self._notify(member, "revoked", [partition for partition in member.owned if partition not in kept])
        for name, member in members.items():
            got = [partition for partition in now[name] if self._is_eager or before.get(partition) != name]
            stay = [partition for partition in now[name] if partition not in got]
            member.positions = {partition: at for partition, at in member.positions.items() if partition in stay}
            member.owned = now[name]
            self._note_pauses(name, [partition for partition in got if before.get(partition, name) != name])
            self._notify(member, "assigned", got, self._restoring(name, got))
            self._states.fill(name, member.owned)
        paused = len(before) if self._is_eager else len(moved)
        fresh = sum(partition not in before for partition in self._known)
        words = f"{fresh} new, " if fresh else ""
        words += f"{len(moved)} moved, {paused} paused, {len(self._known) - fresh - paused} continued"
        self._events.append(GroupEvent(self.now_ms, reason, "", self._sorted(moved), words, len(moved), paused))
        self._warm_up(warmups)

    def _note_pauses(self, name: str, partitions: Iterable[str]) -> None:
        for partition in partitions:
            until = self.now_ms + self._states.restore_ms(name, partition)
            lag = self._states.lag(name, partition)
            since = self._stopped.pop(partition, self.now_ms)
            self._pauses.append(Pause(partition, name, since, self.now_ms, lag, until))

    def _previous(self) -> dict[str, tuple[str, ...]]:
        """Return previous ownership; orphaned partitions go to the member with most of their state."""
        previous = {name: member.owned for name, member in self._members.items()}
        for partition, owner in self._owners.items():
            if owner not in previous and self._states.sizes.get(partition):
                copies = [name for name in previous if (name, partition) in self._states.restored]
                if copies:
                    previous[min(copies, key=lambda name: self._states.lag(name, partition))] += (partition,)
        return previous

    def _warm_up(self, warmups: Mapping[str, str]) -> None:
        self._states.warm_up(warmups)
        if warmups:
            self._probe_at_ms = self.now_ms + self._probe_ms
        for partition, name in self._states.warming.items():
            self._log_event("warming up", name, (partition,), f"{self._states.lag(name, partition):,} records behind")
        for name, partitions in self.standbys.items():
            self._states.fill(name, partitions)

    def _restoring(self, name: str, partitions: Iterable[str]) -> str:
        longest = max((self._states.restore_ms(name, partition) for partition in partitions), default=0)
        return f"restores for {format_duration(longest)}" if longest else ""

    def _notify(self, member: Member, what: str, partitions: Sequence[str], words: str = "") -> None:
        if partitions:
            self._log_event(what, member.name, partitions, words)
            if member.listener is not None:
                member.listener(what, self._sorted(partitions))

    def _remove(self, member: Member, reason: str) -> None:
        del self._members[member.name]
        since = self.now_ms if member.silent_since_ms is None else member.silent_since_ms
        self._stopped |= dict.fromkeys(member.owned, since)
        self._gone[member.name] = reason
        self._log_event(reason, member.name, member.owned)
        self._rebalance()

    def _notice_partitions(self) -> None:
        if self._members and self._known != self.log.partitions:
            self._rebalance()

    def _due(self) -> Iterator[tuple[int, Callable[[], None]]]:
        """Yield the times at which the coordinator acts, and how."""
        for member in list(self._members.values()):
            if member.silent_since_ms is not None:
                yield member.silent_since_ms + self._session_ms, partial(self._remove, member, "timed out")
            elif member.busy_since_ms is not None:
                yield member.busy_since_ms + self._poll_ms + 1, partial(self._remove, member, "polled too late")
        if self._probe_at_ms is not None:
            yield self._probe_at_ms, partial(self._rebalance, "probed")

    def _pass_time(self, until_ms: int) -> None:
        for name, partition in self._states.advance(until_ms - self.now_ms):
            self._log_event("warmed up", name, (partition,))
        self.now_ms = until_ms

    # --- small things ---
    def _member(self, name: str) -> Member:
        result = self._members.get(name)
        if result is None:
            reason = self._gone.get(name)
            fact = f'"{name}" is not a member of group "{self.id}"'
            detail = f"it {reason}; others have its partitions" if reason else None
            raise EngineError(fact, detail=detail, hint="add it with join()")
        if result.silent_since_ms is not None:
            raise EngineError(f'"{name}" has crashed', hint="restart it with join()")
        return result

    def _start_of(self, member: Member, partition: str) -> int:
        """Return where a member starts: its position, the committed offset, or what the reset policy says."""
        log = self.log[partition]
        result = member.positions.get(partition, self.committed.get(partition, (None, ""))[0])
        if result is not None and log.start <= result <= log.high:
            return result
        start = log.start if self._reset_to == "earliest" else log.high
        if result is not None:
            self._log_event("out of range", member.name, (partition,), f"{result} is gone; {self._reset_to} is {start}")
        return start

    def _position(self, partition: str, owner: str) -> Position:
        offset, metadata = self.committed.get(partition, (None, ""))
        at = self._members[owner].positions.get(partition) if owner in self._members else None
        log = self.log[partition]
        return Position(partition, owner, offset, at, log.start, log.high, log.end, metadata)

    def _sorted(self, partitions: Iterable[str]) -> tuple[str, ...]:
        """Return partitions in the log's order."""
        wanted = set(partitions)
        return tuple(partition for partition in self.log.partitions if partition in wanted)

    def _log_event(self, kind: str, member: str, partitions: Iterable[str] = (), words: str = "") -> None:
        self._events.append(GroupEvent(self.now_ms, kind, member, self._sorted(partitions), words))
