"""The end of transactions: repeated calls, errors, and whether one has ended in every partition for its readers.

Kafka confirms a commit once its coordinator has noted it; the markers that end it in the partitions come later. Kafka
4.3 leaves out a partition that has no leader at that moment, such as all partitions of a lone broker that starts again,
and notes the commit as complete. The partition stays open: readers see nothing behind that offset.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import TypeAlias

import numpy as np
from confluent_kafka import KafkaError, KafkaException, Producer

from kstreamnb.background import background
from kstreamnb.errors import BrokerError, DataLossError, EngineError, FencedError
from kstreamnb.kafka.admin import Admin
from kstreamnb.kafka.batch_offsets import PartitionId
from kstreamnb.kafka.bounded_reader import first_messages
from kstreamnb.kafka.client import Servers
from kstreamnb.kafka.output_batch import OutputColumns
from kstreamnb.kafka.partitioners import Content

IsCutOff: TypeAlias = Callable[[], bool]

FirstRecords: TypeAlias = dict[PartitionId, Content]
"""Key and value of the first record that a transaction wrote, by topic and partition."""

_SOON_S = 0.02
_FIRST_PAUSE_S = 0.001
_PAUSE_S = 0.1
_READ_S = 30.0
_RETRY_S = 0.05
_CONNECT_S = 1.0
_RECONNECT_S = 3.0
_LOOK_S = 5.0
_JOIN_S = 0.2
_PATIENCE_S = 600.0


def note_first(records: FirstRecords, columns: OutputColumns) -> None:
    """Add the first record of each partition that is not there yet."""
    for partition, at in zip(*np.unique(columns.partitions, return_index=True), strict=True):
        records.setdefault((columns.topic, int(partition)), (columns.keys[at], columns.values[at]))


def only_of(output: list[OutputColumns], partitions: list[PartitionId]) -> list[OutputColumns]:
    """Return the records of some partitions."""
    return [part for columns in output if len((part := _only(columns, partitions)).keys)]


def _only(columns: OutputColumns, partitions: list[PartitionId]) -> OutputColumns:
    numbers = [partition for topic, partition in partitions if topic == columns.topic]
    rows = np.flatnonzero(np.isin(columns.partitions, numbers))
    if len(rows) == len(columns.keys):
        return columns
    keys, values = [columns.keys[row] for row in rows], [columns.values[row] for row in rows]
    headers = None if columns.headers is None else [columns.headers[row] for row in rows]
    return OutputColumns(columns.topic, columns.partitions[rows], columns.timestamps[rows], keys, values, headers)


def still_open(
    admin: Admin, written: FirstRecords, *, patience_s: float, closing: threading.Event | None = None
) -> list[PartitionId]:
    """Wait until a transaction has ended in all its partitions; return those where it has not, in order.

    Those of other producers are waited for some milliseconds at most: the first open record tells them apart.

    Args:
        admin: connected to the brokers.
        written: what the transaction wrote.
        patience_s: how many seconds to wait.
        closing: ends the wait, too.
    """
    began, pause = time.monotonic(), _FIRST_PAUSE_S
    while True:
        starts = admin.open_transactions(written)
        waited = time.monotonic() - began
        if starts and waited > _SOON_S:
            first = first_open_records(admin, starts)
            starts = {partition: at for partition, at in starts.items() if first.get(partition) == written[partition]}
        if not starts or waited > patience_s or (closing is not None and closing.is_set()):
            return sorted(starts)
        time.sleep(pause)
        pause = min(2 * pause, _PAUSE_S)


def first_open_records(admin: Admin, starts: Mapping[PartitionId, int]) -> FirstRecords:
    """Read the record at the start of each open transaction.

    Args:
        admin: connected to the brokers.
        starts: offsets by topic and partition.
    """
    first = first_messages(admin.servers, starts, _READ_S, isolation_level="read_uncommitted")
    return {partition: (message.key(), message.value()) for partition, message in first.items()}


def never_ended(application: str, partition_id: PartitionId, first: int) -> BrokerError:
    """Make the error of a transaction that is open though its writer is fenced."""
    topic, partition = partition_id
    fact = f'a transaction of "{application}" never ended'
    detail = f'topic "{topic}" is open from offset {first}, though its writer is fenced'
    call = f"kafka-transactions.sh abort --topic {topic} --partition {partition} --start-offset {first}"
    return BrokerError(fact, detail=detail, hint=f"abort it with {call}, then deploy again")


def unknown_end(application: str, batch: int, left: list[PartitionId], wanted: list[PartitionId]) -> DataLossError:
    """Make the error of a batch that has ended in some partitions, either committed or aborted."""
    fact = f'Kafka has lost the end of batch {batch} of "{application}"'
    are_open = f"{len(left)} of {len(wanted)} partitions are open, {named_partitions(left)}"
    detail = f"{are_open}; it is unknown whether the others were committed or aborted"
    hint = "find its producer with kafka-transactions.sh find-hanging, and reset the application"
    return DataLossError(fact, detail=detail, hint=hint)


def named_partitions(partitions: list[PartitionId]) -> str:
    """Return the first partitions, for an error."""
    shown = ", ".join(f"{topic}-{partition}" for topic, partition in partitions[:3])
    return shown if len(partitions) <= 3 else f"{shown} and {len(partitions) - 3} more"


def repeat_call(
    call: Callable[..., object],
    *arguments: object,
    patience_s: float = _PATIENCE_S,
    closing: threading.Event | None = None,
    cut_off: IsCutOff = lambda: False,
) -> None:
    """Repeat a call of the transaction protocol until its outcome is known: no other call is allowed before that.

    Args:
        call: the call.
        arguments: of the call; the last one is how many seconds it may take.
        patience_s: after how many seconds a failure is raised.
        closing: ends the repetition, too.
        cut_off: ends it as well if it returns True after a failure.
    """
    end = time.monotonic() + patience_s
    while True:
        try:
            call(*arguments)
            return
        except KafkaException as error:
            failure = error
        # Not within the handler: an error of the client that is raised there keeps the handled one, with its frames and
        # the producer in them, forever.
        over = time.monotonic() > end or (closing is not None and closing.is_set())
        if over or not failure.args[0].retriable() or cut_off():
            try:
                raise failure
            finally:
                del failure  # which refers to this frame
        time.sleep(_RETRY_S)  # with no broker in reach, some calls fail at once


def is_cut_off(producer: Producer, servers: Servers, topic: str) -> bool:
    """Return whether a producer has no broker although one answers, so that only another producer can continue.

    If no broker was up when librdkafka asked for them, as after a pause of a lone broker, it never connects again (its
    issue 5301).

    Args:
        producer: asked last, so that it has had time to connect again.
        servers: of a client that asks first.
        topic: an existing topic.
    """
    try:
        Admin(servers, patience_s=_CONNECT_S).topics([topic])
        producer.list_topics(topic, timeout=_RECONNECT_S)
    except (EngineError, KafkaException) as error:
        return isinstance(error, KafkaException) and error.args[0].code() == KafkaError._TRANSPORT  # noqa: SLF001
    return False


def call_within(
    seconds: float,
    call: Callable[[], object],
    *,
    closing: threading.Event,
    cut_off: IsCutOff = lambda: False,
    waiting: Callable[[], int] = lambda: 0,
) -> None:
    """Make a call that librdkafka may never end, whatever timeout it is given.

    If the broker that coordinates a group is killed, sending offsets may wait forever. The thread of such a call stays,
    and with it the producer, which must not be freed.

    Args:
        seconds: how long to wait.
        call: has no result.
        closing: ends the wait, too.
        cut_off: asked every few seconds; True ends the wait as well.
        waiting: counts the records without an acknowledgement; each time there are fewer, the wait begins again: a
            broker that limits the rate of a client answers no other request of it meanwhile.

    Raises:
        KafkaException: the call failed, or has not ended in time.
    """
    errors: list[BaseException] = []
    thread, end = background(call, "kstreamnb-transaction", died=errors.append), time.monotonic() + seconds
    look, left = time.monotonic() + _LOOK_S, waiting()
    while thread.is_alive() and time.monotonic() < end and not closing.is_set():
        thread.join(_JOIN_S)
        if (now := waiting()) < left:
            left, end = now, time.monotonic() + seconds
        if thread.is_alive() and time.monotonic() > look:
            if cut_off():
                break
            look = time.monotonic() + _LOOK_S
    if thread.is_alive():
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT, f"no answer within {seconds:g} s"))  # noqa: SLF001
    if errors:
        raise errors[0]


def send_offsets(
    producer: Producer, send: Callable[[float], object], seconds: float, closing: threading.Event, cut_off: IsCutOff
) -> None:
    """Add the offsets of a group to a producer's transaction.

    Args:
        producer: has a transaction, whose records may be on their way.
        send: sends the offsets, and may take the given number of seconds.
        seconds: how many seconds to wait, after the last acknowledgement of a record.
        closing: ends the wait, too.
        cut_off: returns whether the producer has no broker although one answers, which ends the wait as well.

    Raises:
        KafkaException: the call failed, or has not ended in time.
    """
    given_up = threading.Event()

    def waiting() -> int:
        producer.poll(0.0)  # acknowledged records are counted until then
        return len(producer)

    try:
        repeated = partial(repeat_call, send, _LOOK_S, closing=given_up, cut_off=cut_off)
        call_within(seconds, repeated, closing=closing, cut_off=cut_off, waiting=waiting)
    finally:
        given_up.set()


def is_over(producer: Producer) -> bool:
    """Try to end the transaction of a producer that was given up; tell whether the producer may be freed now."""
    try:
        producer.abort_transaction(_CONNECT_S)
    except KafkaException as error:
        return not error.args[0].retriable()
    return True


def overtaken(application: str, detail: str = "it was started again since") -> FencedError:
    """Make the error of a deployment that another one has replaced."""
    fact = f'a newer deployment of "{application}" has taken over'
    return FencedError(fact, detail=detail, hint="let the other one run; or stop it and deploy this one again")


def awake_s() -> float:
    """Read a clock that also counts while the machine sleeps, as the clock of its broker does."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))
