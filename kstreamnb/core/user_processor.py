"""The operator that runs a user's processor: the adapter between `core.processor` and `core.operator`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kstreamnb.core.operator import BindContext, Forward, Process
from kstreamnb.core.record import Headers, Record

__all__ = ["UserProcessor"]


@dataclass(frozen=True)
class UserProcessor:
    """Runs a processor that ``supplier`` makes, a new one for each task."""

    supplier: Any

    def bind(self, context: BindContext, forward: Forward) -> Process:
        """Make the processor, hand it its context and give back the function that feeds it."""
        processor = self.supplier()
        processor.init(context)

        def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            processor.process(Record(key, value, timestamp, headers))

        return process
