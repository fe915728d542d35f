"""Stores of a query as views that keep up with it.

Every batch brings the changes of its tasks' states. They are queued here as bytes until the first read; then they are
applied to copies of the stores in this process. Stores that were never read cost only the queued bytes; when those
exceed a limit they are discarded, and the next read uses the checkpoint.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from threading import Lock, get_ident
from typing import Any

from pyspark.sql import SparkSession

from kstreamnb.core.progress import under_way
from kstreamnb.kafka.storage.checkpoint_files import CheckpointFiles
from kstreamnb.spark.execution.state_codec import unpack_delta
from kstreamnb.spark.execution.worker_cache import empty_task
from kstreamnb.spark.jvm.session import require_session
from kstreamnb.spark.planning.deployment import Deployment, Placed
from kstreamnb.spark.state.checkpoint_reader import await_commit, last_batch, read_entries
from kstreamnb.spark.state.store_view import StoreView, placements_of, stores_named
from kstreamnb.state.query_views import Detail

_MOST_WAITING_BYTES = 64 << 20


@dataclass
class _StoreCopy:
    """A task's state in this process, as of an entry of its log, and the queued changes.

    ``looked``: the checkpoint was read for it.
    """

    seq: int = 0
    looked: bool = False
    task: Any = None
    waiting: deque[tuple[int, bytes]] = field(default_factory=deque)
    size: int = 0


class LiveStores:
    """Copies of the state of a query's tasks, created on first access.

    ``trust``: objects of users' classes in the checkpoint may be unpickled.
    """

    def __init__(
        self, spark: SparkSession, deployment: Deployment, checkpoint: CheckpointFiles, *, trust: bool = True
    ) -> None:
        self.deployment, self.checkpoint = deployment, checkpoint
        self.batch = -1
        self._trust = trust
        self._spark, self._lock = spark, Lock()
        self.thread: int | None = None  # calls the sink and the watchers of a batch, and commits it afterwards
        self._copies: dict[int, _StoreCopy] = {}

    def take(self, batch: int, deltas: Iterable[tuple[int, int, bytes]]) -> None:
        """Note the changes of a batch: (producer, number of the entry, delta)."""
        with self._lock:
            for source, seq, delta in deltas:
                copy = self._copies.setdefault(source - len(self.deployment.input_ranks), _StoreCopy())
                copy.waiting.append((seq, delta))
                copy.size += len(delta)
            self.batch = batch
            waiting = sum(copy.size for copy in self._copies.values())
            while waiting > _MOST_WAITING_BYTES:
                most = max(self._copies.values(), key=lambda copy: copy.size)
                waiting -= most.size
                most.waiting.clear()
                most.size = 0

    def forget(self, deployment: Deployment) -> None:
        """Start over: a deployment starts from the checkpoint."""
        with self._lock:
            self.deployment = deployment
            self._copies.clear()
            self.batch = -1

    def ask(self, name: str, question: Callable[[list[Any]], Any]) -> tuple[int, Any]:
        """Return the answer of a store's parts as of the last batch, and the batch; nothing changes meanwhile."""
        while True:
            with self._lock:
                placed = placements_of(self.deployment, name)
                behind = self._behind(placed)
                if behind:  # first of all: without the session, Spark does not commit the batch either
                    require_session(self._spark)
                # Before its commit the checkpoint would show the batch before.
                if not behind or last_batch(self.checkpoint) >= self.batch:
                    if behind:
                        self._read(behind)
                    tasks = (self._copies[each.number].task for each in placed)
                    return self.batch, question([store for task in tasks for store in stores_named(task, name)])
                batch, wait = self.batch, get_ident() != self.thread
            # Without the lock: Spark commits the batch after its watchers, which may read stores too.
            with under_way("waiting for Spark to commit a batch"):
                await_commit(self.checkpoint, batch, wait=wait)

    def _behind(self, placed: list[Placed]) -> list[Placed]:
        """Return the tasks that need the checkpoint, after the queued changes of all."""
        behind = []
        for each in placed:
            copy = self._copies.setdefault(each.number, _StoreCopy())
            if copy.task is None:
                copy.task = empty_task(self.deployment, each)
            current = _catch_up(copy, trust=self._trust) and self.deployment.options.live
            if not current or (copy.seq == 0 and not copy.looked):
                behind.append(each)
        return behind

    def _read(self, placed: list[Placed]) -> None:
        """Apply the checkpoint's changes beyond the copies, then the queued ones."""
        since = {each.routing_key: self._copies[each.number].seq for each in placed}
        keepers = {each.routing_key: each for each in placed}
        with under_way("reading state from the checkpoint"):
            batch, entries = read_entries(self._spark, self.deployment, self.checkpoint, placed[0].level, since)
        for group, seq, deltas in entries:
            copy = self._copies[keepers[group].number]
            if seq > copy.seq + 1:  # the log was compacted meanwhile: its present content is everything
                copy.task = empty_task(self.deployment, keepers[group])
            for delta in deltas:
                copy.task.apply_delta(unpack_delta(delta, trust=self._trust))
            copy.seq = seq
        for each in placed:
            self._copies[each.number].looked = True
            _catch_up(self._copies[each.number], trust=self._trust)
        self.batch = batch


def _catch_up(copy: _StoreCopy, *, trust: bool) -> bool:
    """Apply the queued changes; return whether none was missing before them."""
    while copy.waiting:
        seq, delta = copy.waiting[0]
        if seq > copy.seq + 1:
            return False
        copy.waiting.popleft()
        copy.size -= len(delta)
        if seq == copy.seq + 1:
            copy.task.apply_delta(unpack_delta(delta, trust=trust))
            copy.seq = seq
    return True


class LiveView(StoreView):
    """A `StoreView` that shows the last batch whenever it is read.

    ``batch`` is the batch that the last answer was from, ``lag`` the records that wait in the input topics.
    """

    def __init__(self, name: str, stores: LiveStores, lag: Callable[[], int], show: Detail = "values") -> None:
        self._stores, self._lag_now = stores, lag
        batch, parts = stores.ask(name, list)
        super().__init__(name, parts, batch=batch, show=show)

    @property
    def lag(self) -> int:
        """Records that wait in the input topics now."""
        return self._lag_now()

    def _ask(self, name: str, arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
        def answer(parts: list[Any]) -> Any:
            result = getattr(self._over(parts), name)(*arguments, **options)
            return list(result) if hasattr(result, "__next__") else result

        self.batch, result = self._stores.ask(self.name, answer)
        return iter(result) if isinstance(result, list) else result
