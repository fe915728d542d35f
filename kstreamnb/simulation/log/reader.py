"""Reads a log from independent positions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from kstreamnb.core.arguments import at_least, check_arguments
from kstreamnb.core.record import TopicRecord
from kstreamnb.errors import EngineError

if TYPE_CHECKING:  # a log makes its readers
    from kstreamnb.simulation.log.log import Log


class LogReader:
    """Reads partitions from its own positions; records of different partitions have no defined order."""

    def __init__(self, log: Log, partitions: list[str]) -> None:
        self._log = log
        self._positions = dict.fromkeys(partitions, 0)

    def __repr__(self) -> str:
        return f"<reader at {', '.join(f'{partition}: {at}' for partition, at in self._positions.items())}>"

    @property
    def positions(self) -> Mapping[str, int]:
        """The next offset in each partition."""
        return dict(self._positions)

    def read(self, limit: int | None = None) -> list[TopicRecord]:
        """Return the next records, partition by partition.

        Args:
            limit: the maximum number of records. Default: all.
        """
        check_arguments(LogReader.read, locals())
        result: list[TopicRecord] = []
        for partition, at in self._positions.items():
            wanted = None if limit is None else limit - len(result)
            taken = self._log.records(partition, at, wanted) if wanted != 0 else []
            self._positions[partition] = at + len(taken)
            result += taken
        return result

    def seek(self, partition: str, offset: int) -> None:
        """Set the position in a partition, forwards or backwards.

        Args:
            partition: the partition, such as "orders-0".
            offset: the offset of the next record to read.
        """
        check_arguments(LogReader.seek, locals())
        at_least(0, offset, "offset")
        if partition not in self._positions:
            raise EngineError(f'the reader does not read "{partition}"', hint=f"it reads {', '.join(self._positions)}")
        self._positions[partition] = offset
