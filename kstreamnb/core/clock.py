"""The wall clock as a value that is handed in: the spine never reads the machine's clock.

The driver and Spark own a `Clock` and move it; a processor sees it as ``context.wall_clock_ms()``.
"""

from __future__ import annotations

from dataclasses import dataclass

from kstreamnb.errors import ConfigError


@dataclass
class Clock:
    """A wall clock that moves only when it is told to, and never backwards.

    Units: ``now_ms`` is milliseconds since the epoch.

    Example:
        >>> clock = Clock(1000)
        >>> clock.advance_to(1500)
        >>> clock.now_ms
        1500
    """

    now_ms: int = 0

    def advance_to(self, now_ms: int) -> None:
        """Move to ``now_ms``; raises ConfigError when that is in the past."""
        if now_ms < self.now_ms:
            raise ConfigError(f"the clock cannot go back from {self.now_ms} ms to {now_ms} ms")
        self.now_ms = now_ms
