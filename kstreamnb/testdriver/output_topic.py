"""`OutputTopic`: reads what an application wrote to one topic."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol

from kstreamnb.core.record import TopicRecord
from kstreamnb.core.serde import Serde
from kstreamnb.errors import EngineError
from kstreamnb.frames import Records
from kstreamnb.hints import did_you_mean
from kstreamnb.suggesting import Suggesting


class Unread(Protocol):
    """The unread records of a topic."""

    def __len__(self) -> int: ...
    def take(self, key_serde: Serde, value_serde: Serde) -> TopicRecord:
        """Read the next record."""


class OutputTopic(Suggesting):
    """Reads what the application wrote to one topic, each record once, in the order of writing."""

    def __init__(
        self,
        topic: str,
        log: Callable[[str], Unread | None],
        serdes: Callable[[], tuple[Serde, Serde]],
        written: Callable[[], Iterable[str]] = tuple,
    ) -> None:
        self.topic = topic
        self._log, self._serdes, self._written = log, serdes, written

    def __repr__(self) -> str:
        return f'<OutputTopic "{self.topic}">'

    def read_record(self) -> TopicRecord:
        """Read the next record; raise EngineError if there is none."""
        log = self._log(self.topic)
        if log is None:
            message = f'nothing was ever written to topic "{self.topic}"'
            why = f'ks.Replay.of(driver).why_no_output("{self.topic}") explains why'
            hint = did_you_mean(self.topic, self._written()) or why
            raise EngineError(message, hint=hint, java=f"Uninitialized topic: {self.topic}")
        if not len(log):
            raise EngineError(f'topic "{self.topic}" has no more records', java=f"Empty topic: {self.topic}")
        return log.take(*self._serdes())

    def read_value(self) -> Any:
        """Read the next record and return its value; raise EngineError if there is none."""
        return self.read_record().value

    def read_key_value(self) -> tuple[Any, Any]:
        """Read the next record and return its key and value; raise EngineError if there is none."""
        record = self.read_record()
        return record.key, record.value

    def read_records(self) -> Records:
        """Read all remaining records: a list that displays as a table, and whose ``to_pandas`` makes a frame."""
        log = self._log(self.topic)
        if log is None:
            return Records()
        serdes = self._serdes()
        return Records(log.take(*serdes) for _ in range(len(log)))

    read_records_to_list = read_records

    def read_values_to_list(self) -> list[Any]:
        """Read all remaining records and return their values."""
        return [record.value for record in self.read_records()]

    def read_key_values_to_list(self) -> list[tuple[Any, Any]]:
        """Read all remaining records and return their keys and values."""
        return [(record.key, record.value) for record in self.read_records()]

    def read_key_values_to_map(self) -> dict[Any, Any]:
        """Read all remaining records and return the last value of each key; raise EngineError for a null key."""
        pairs = self.read_key_values_to_list()
        if any(key is None for key, _ in pairs):
            java = "Null keys not allowed with readKeyValuesToMap method"
            raise EngineError(f'a record of topic "{self.topic}" has no key', java=java)
        return dict(pairs)

    def is_empty(self) -> bool:
        """Return whether every record has been read."""
        return self.queue_size() == 0

    def queue_size(self) -> int:
        """Return the number of unread records."""
        log = self._log(self.topic)
        return 0 if log is None else len(log)

    get_queue_size = queue_size
