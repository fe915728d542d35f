"""Output that executors publish: a transaction for each slot of a batch, then the driver's marker of the whole batch.

A slot has whole partitions of the output topics, the same ones in every batch, and each record comes to it in the
canonical order. Whoever publishes a slot fences all earlier attempts first, and then reads the slot's marker: what was
published before an executor, a stage or the driver failed is not published again. No slot is published before all
tasks of the batch have succeeded.
"""

from __future__ import annotations

import json
import os
import pickle
import socket
import time
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeAlias

import pyarrow as pa
from pyspark import TaskContext

from kstreamnb.errors import FencedError, KStreamError
from kstreamnb.kafka.batch_marker import PublishedOutput, summed
from kstreamnb.kafka.client import Servers
from kstreamnb.kafka.output_batch import OutputBatch, checksum_of
from kstreamnb.kafka.storage.checkpoint_files import Claim
from kstreamnb.kafka.transactional_writer import TransactionalWriter
from kstreamnb.spark.contracts import PREPARED, QueryBatch
from kstreamnb.spark.execution.batch_output import BatchOutput, PublishedSlot, times_of
from kstreamnb.spark.execution.failures import pack_failure
from kstreamnb.spark.execution.record_batch import RecordBatch, unpack
from kstreamnb.spark.execution.rows import FAILURE, PUBLISHED, Row5, RowFunction, row_batch, rows_in
from kstreamnb.spark.io.sinks import KafkaSink
from kstreamnb.spark.planning.deployment import FIRST_SLOT

_MOST_OPEN = 4
_MOST_FENCED = 6
_PAUSE_S = 0.2
_open_sinks: OrderedDict[tuple[str, int, object], KafkaSink] = OrderedDict()
# By query, slot and claim: what this process has open between batches.

SlotRecords: TypeAlias = dict[str, list[tuple[int, int, RecordBatch]]]
"""The record batches of a slot by topic, with producer and number."""


class _Prepared(NamedTuple):
    """A batch as the driver announces it before its tasks run.

    ``replay``: all of its slots are in Kafka; ``processes`` names those that have slots open, by slot.
    """

    batch: int
    source: str
    replay: bool = False
    processes: Mapping[str, str] = {}


@dataclass(frozen=True)
class SlotPublisher:
    """The last stage of a batch: publishes the slots whose rows it is given. Spark sends it to executors.

    Attributes:
        servers: addresses and settings of all clients.
        application: id of the application.
        query: identity of the checkpoint.
        config: further settings of the producers.
        claim: that of the query's start.
    """

    servers: Servers = field(repr=False)
    application: str
    query: str
    config: Mapping[str, object] = field(repr=False)
    claim: Claim | None

    def open(self, slot: int) -> KafkaSink:
        """Return a sink that has fenced every other writer of a slot."""
        sink = KafkaSink(TransactionalWriter(self.servers, self.application, self.query, config=self.config, slot=slot))
        sink.owner = sink.writer.claim = self.claim
        sink.open_again(time.monotonic() + sink.patience_s)
        return sink

    def run(self, arrows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Publish the output among some rows; pass all others on. Nothing is published if a task has failed."""
        slots: dict[int, SlotRecords] = {}
        others: list[Row5] = []
        for arrow in arrows:
            for row in rows_in(arrow):
                if row[1] > FIRST_SLOT:
                    others.append(row)
                    continue
                batch = unpack(row[4])
                slots.setdefault(FIRST_SLOT - row[1], {}).setdefault(batch.topic, []).append((row[2], row[3], batch))
        yield row_batch(others)
        if any(row[1] == FAILURE for row in others):
            return
        context = TaskContext.get()
        assert context is not None
        prepared = _Prepared(*json.loads(context.getLocalProperty(PREPARED) or ""))
        for slot in sorted(slots):
            yield row_batch([self._row(prepared, slot, slots[slot])])

    def _row(self, prepared: _Prepared, slot: int, records: SlotRecords) -> Row5:
        try:
            return 0, PUBLISHED, 0, slot, pickle.dumps(self._published(prepared, slot, records), 5)
        except KStreamError as error:
            return 0, FAILURE, 0, slot, pack_failure(f"output slot {slot}", error)

    def _published(self, prepared: _Prepared, slot: int, records: SlotRecords) -> PublishedSlot:
        output = BatchOutput({(0, topic): batches for topic, batches in records.items()})
        batch = QueryBatch(prepared.batch, prepared.source, {}, 0, output)
        times = times_of(each for group in records.values() for _, _, each in group)
        if prepared.replay:
            whole = summed(output.columns())
            process = prepared.processes.get(str(slot), "")
            return PublishedSlot(slot, whole.records, whole.checksum, differs=False, times=times, process=process)
        here = f"{socket.gethostname()} {os.getpid()}"
        sink, done = self._publish(batch, slot, is_open=prepared.processes.get(str(slot)) == here)
        assert isinstance(sink.writer, TransactionalWriter)
        assert sink.writer.marker is not None
        return PublishedSlot(slot, done.records, sink.writer.marker.output, done.differs, times, here)

    def _publish(self, batch: QueryBatch, slot: int, *, is_open: bool) -> tuple[KafkaSink, OutputBatch]:
        """Publish a slot; if another attempt of this deployment has fenced this one, find out how far it came."""
        fenced = 0
        while True:
            try:
                sink = self._opened(slot, is_open=is_open and not fenced)
                sink.writer.without_output = range(batch.number)  # a slot may have no output for any number of batches
                return sink, sink.publish(batch)
            except FencedError:
                fenced += 1
                if fenced > _MOST_FENCED or (self.claim is not None and not self.claim.holds()):
                    raise
                time.sleep(_PAUSE_S * fenced)  # the other one may finish meanwhile

    def _opened(self, slot: int, *, is_open: bool) -> KafkaSink:
        """Return the sink of a slot: that of an earlier batch, if no other process has opened the slot since."""
        key = self.query, slot, getattr(self.claim, "token", None)
        sink = _open_sinks.pop(key, None)
        if sink is not None and not is_open:
            sink.close()
        _open_sinks[key] = sink = sink if sink is not None and is_open else self.open(slot)
        while len(_open_sinks) > _MOST_OPEN:
            _open_sinks.popitem(last=False)[1].close()
        return sink


@dataclass
class SlotSink(KafkaSink):
    """The driver's part: says before a batch whether Kafka has it, and marks it as whole when its slots are published.

    Attributes:
        writer: the writer of whole batches.
        processes: names of the processes that have slots open, by slot.
    """

    writer: TransactionalWriter
    processes: dict[str, str] = field(default_factory=dict, repr=False)

    pipelined = False  # the tasks of the next batch would publish before this one is marked

    def open(self) -> None:
        """Fence older deployments with all their slots."""
        super().open()
        self.processes.clear()
        publisher = self._publisher()
        for slot in range(self.writer.slots):
            publisher.open(slot).close()

    def _publisher(self) -> SlotPublisher:
        writer = self.writer
        return SlotPublisher(writer.servers, writer.application, writer.query, writer.config, self.owner)

    def on_executors(self) -> RowFunction:
        """Return the function that publishes a batch's rows."""
        return self._publisher().run

    def prepare(self, batch: int, source: str) -> str:
        """Return what executors need to know of a batch.

        Args:
            batch: its number.
            source: its entry in the log of input offsets.
        """
        return json.dumps(_Prepared(batch, source, self.writer.is_replay(batch, source), self.processes))

    def _send(self, batch: QueryBatch) -> OutputBatch:
        slots = sorted(batch.output.published)
        self.processes.update({str(each.slot): each.process for each in slots})
        checksum = checksum_of(json.dumps([(each.slot, each.checksum) for each in slots]))
        whole = PublishedOutput(sum(each.records for each in slots), checksum)
        done = self.writer.publish(batch.number, batch.source, (), batch.positions, in_slots=whole)
        return replace(done, differs=done.differs or any(each.differs for each in slots))
