"""A reader of a log: it has offsets of its own, and nothing that it does changes the log or another reader."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from kstreamnb.core.record import TopicRecord
from kstreamnb.errors import EngineError

if TYPE_CHECKING:  # a log makes its readers
    from kstreamnb.simulation.log.log import Log

__all__ = ["LogReader"]


class LogReader:
    """Reads partitions from positions of its own, each in order; between partitions there is no order to rely on."""

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
        """The next records, at most ``limit``, partition by partition."""
        result: list[TopicRecord] = []
        for partition, at in self._positions.items():
            wanted = None if limit is None else limit - len(result)
            taken = self._log.records(partition, at, wanted) if wanted != 0 else []
            self._positions[partition] = at + len(taken)
            result += taken
        return result

    def seek(self, partition: str, offset: int) -> None:
        """Go on elsewhere: what was read before can be read again."""
        if partition not in self._positions:
            raise EngineError(f'the reader does not read "{partition}"', hint=f"it reads {', '.join(self._positions)}")
        self._positions[partition] = offset
