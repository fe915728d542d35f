"""A topic as a test reads from it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from kstreamnb.core.record import TopicRecord
from kstreamnb.core.serde import Serde
from kstreamnb.errors import EngineError

__all__ = ["OutputTopic"]


class Unread(Protocol):
    """Records of a topic that were not read yet."""

    def __len__(self) -> int: ...
    def take(self, key_serde: Serde, value_serde: Serde) -> TopicRecord:
        """The next record."""


class OutputTopic:
    """Reads what the application wrote to one topic, each record once, in the order in which they were written."""

    def __init__(
        self, topic: str, log: Callable[[str], Unread | None], serdes: Callable[[], tuple[Serde, Serde]]
    ) -> None:
        self.topic = topic
        self._log, self._serdes = log, serdes

    def read_record(self) -> TopicRecord:
        """The next record; raises EngineError when there is none."""
        log = self._log(self.topic)
        if log is None:
            message = f'nothing was ever written to topic "{self.topic}"'
            raise EngineError(message, java=f"Uninitialized topic: {self.topic}")
        if not len(log):
            raise EngineError(f'topic "{self.topic}" has no more records', java=f"Empty topic: {self.topic}")
        return log.take(*self._serdes())

    def read_value(self) -> Any:
        """The next record's value; raises EngineError when there is none."""
        return self.read_record().value

    def read_key_value(self) -> tuple[Any, Any]:
        """The next record's key and value; raises EngineError when there is none."""
        record = self.read_record()
        return record.key, record.value

    def read_records(self) -> list[TopicRecord]:
        """All records that are left."""
        log = self._log(self.topic)
        if log is None:
            return []
        serdes = self._serdes()
        return [log.take(*serdes) for _ in range(len(log))]

    read_records_to_list = read_records

    def read_values_to_list(self) -> list[Any]:
        """Values of all records that are left."""
        return [record.value for record in self.read_records()]

    def read_key_values_to_list(self) -> list[tuple[Any, Any]]:
        """Keys and values of all records that are left."""
        return [(record.key, record.value) for record in self.read_records()]

    def read_key_values_to_map(self) -> dict[Any, Any]:
        """The last value of each key among the records that are left; raises EngineError for a null key."""
        pairs = self.read_key_values_to_list()
        if any(key is None for key, _ in pairs):
            java = "Null keys not allowed with readKeyValuesToMap method"
            raise EngineError(f'a record of topic "{self.topic}" has no key', java=java)
        return dict(pairs)

    def is_empty(self) -> bool:
        """Whether every record was read."""
        return self.queue_size() == 0

    def queue_size(self) -> int:
        """Number of records that were not read."""
        log = self._log(self.topic)
        return 0 if log is None else len(log)

    get_queue_size = queue_size
