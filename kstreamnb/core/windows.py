"""Windows: which spans of stream time a record belongs to, and how long late records are accepted.

All are frozen values in milliseconds; the factories have Java's names and take durations. A short form with
keywords, ``of(…)``, exists beside them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from kstreamnb.core.arguments import expect_number
from kstreamnb.core.time import MAX_TIME_MS, Duration, Instant, duration_ms, instant_ms
from kstreamnb.errors import ConfigError
from kstreamnb.suggesting import Suggesting

_NO_GRACE = "0ms"
_OF = 'give durations to of(), such as TimeWindows.of("5m"), SessionWindows.of("5m") or JoinWindows.of("5m")'
_LEGACY_MS = 24 * 60 * 60 * 1000
_NOT_GIVEN: Any = None
_GRACE = "Cannot call grace() after setting grace value via ofTimeDifferenceAndGrace or ofTimeDifferenceWithNoGrace."


def _check_not_negative(ms: int, what: str, java: str) -> None:
    expect_number(ms, what, hint=_OF)
    if ms < 0:
        raise ConfigError(f"{what} must not be negative, got {ms} ms", java=java)


@dataclass(frozen=True)
class TimeWindows(Suggesting):
    """Windows ``[start, start + size)`` aligned to the epoch: tumbling, or hopping when they advance by less.

    Args:
        size_ms: size of the windows in milliseconds, at least 1.
        grace_ms: how long late records are accepted after a window's end, in milliseconds of stream time. Default: 0.
        advance_ms: milliseconds between the starts of two windows, at most the size. Default: the size, tumbling
            windows.

    Example:
        >>> TimeWindows.of(size="10s", advance="5s").windows_for(12_000)
        range(5000, 12001, 5000)
    """

    size_ms: int
    grace_ms: int = 0
    advance_ms: int = 0

    def __post_init__(self) -> None:
        expect_number(self.size_ms, "window size", hint=_OF)
        expect_number(self.advance_ms, "advance", hint=_OF)
        if self.size_ms <= 0:
            java = "Window size (sizeMs) must be larger than zero."
            raise ConfigError(f"window size must be positive, got {self.size_ms} ms", java=java)
        _check_not_negative(self.grace_ms, "grace", "Grace period must not be negative.")
        if not self.advance_ms:
            object.__setattr__(self, "advance_ms", self.size_ms)
        _check_advance(self.advance_ms, self.size_ms)

    @classmethod
    def of(cls, size: Duration, *, grace: Duration = _NO_GRACE, advance: Duration | None = None) -> Self:
        """Define windows of a size with a ``grace`` for late records, tumbling or advancing by ``advance``.

        In Java's ``TimeWindows.of``, which Kafka 4.0 removed, size and grace together last one day.

        Args:
            size: size of the windows, such as "1h".
            grace: how long late records are accepted after a window's end, in stream time. Default: 0 ms.
            advance: time between the starts of two windows, at most the size. Default: the size, tumbling windows.
        """
        windows = cls(duration_ms(size, "window size"), duration_ms(grace, "grace"))
        return windows if advance is None else windows.advance_by(advance)

    @classmethod
    def of_size_with_no_grace(cls, size: Duration) -> Self:
        """Define tumbling windows that close at their end.

        Args:
            size: size of the windows, such as "1h".
        """
        return cls.of(size=size)

    @classmethod
    def of_size_and_grace(cls, size: Duration, after_window_end: Duration) -> Self:
        """Define tumbling windows with a grace period after their end.

        Args:
            size: size of the windows, such as "1h".
            after_window_end: how long late records are accepted after a window's end, in stream time.
        """
        return cls.of(size=size, grace=after_window_end)

    def advance_by(self, advance: Duration) -> Self:
        """Return hopping windows: one starts every ``advance``.

        Args:
            advance: time between the starts of two windows, more than 0 and at most the size.

        Raises: ConfigError for an advance of 0 ms or less, or beyond the size.
        """
        advance_ms = duration_ms(advance, "advance")
        _check_advance(advance_ms, self.size_ms)
        return replace(self, advance_ms=advance_ms)

    def windows_for(self, timestamp: int) -> range:
        """Starts (ms) of the windows that a timestamp is in, earliest first.

        Args:
            timestamp: event time in epoch milliseconds.
        """
        first = max(0, timestamp - self.size_ms + self.advance_ms) // self.advance_ms * self.advance_ms
        return range(first, timestamp + 1, self.advance_ms)


def _check_advance(advance_ms: int, size_ms: int) -> None:
    if not 0 < advance_ms <= size_ms:
        hint = "choose an advance above zero and at most the size, so that every record falls into a window"
        java = "Window advancement interval should be more than zero and less than window duration which"
        java = f"{java} is {size_ms} ms, but given advancement interval is: {advance_ms} ms"
        raise ConfigError(f"windows of {size_ms} ms cannot advance by {advance_ms} ms", hint=hint, java=java)


@dataclass(frozen=True)
class SlidingWindows(Suggesting):
    """Windows ``[t, t + difference]`` with both ends included, one for each set of records within it.

    Args:
        difference_ms: longest time between two records of a window, in milliseconds.
        grace_ms: how long late records are accepted after a window's end, in milliseconds of stream time. Default: 0.
    """

    difference_ms: int
    grace_ms: int = 0

    def __post_init__(self) -> None:
        _check_not_negative(self.difference_ms, "time difference", "Window time difference must not be negative.")
        _check_not_negative(self.grace_ms, "grace", "Window grace period must not be negative.")

    @property
    def size_ms(self) -> int:
        """The time difference: what stores call the window size."""
        return self.difference_ms

    @classmethod
    def of(cls, difference: Duration, *, grace: Duration = _NO_GRACE) -> Self:
        """Define windows of records at most ``difference`` apart.

        Args:
            difference: longest time between two records of a window, such as "10s".
            grace: how long late records are accepted after a window's end, in stream time. Default: 0 ms.
        """
        return cls(duration_ms(difference, "time difference"), duration_ms(grace, "grace"))

    @classmethod
    def of_time_difference_with_no_grace(cls, difference: Duration) -> Self:
        """Define sliding windows that close as soon as stream time passes their end.

        Args:
            difference: longest time between two records of a window, such as "10s".
        """
        return cls.of(difference=difference)

    @classmethod
    def of_time_difference_and_grace(cls, difference: Duration, after_window_end: Duration) -> Self:
        """Define sliding windows with a grace period after their end.

        Args:
            difference: longest time between two records of a window, such as "10s".
            after_window_end: how long late records are accepted after a window's end, in stream time.
        """
        return cls.of(difference=difference, grace=after_window_end)


@dataclass(frozen=True)
class SessionWindows(Suggesting):
    """Sessions: records at most ``gap`` apart belong together; both ends are records' timestamps.

    Args:
        gap_ms: longest time between neighboring records of a session, in milliseconds.
        grace_ms: how long late records are accepted after a session's end and gap, in milliseconds of stream time.
            Default: 0.
    """

    gap_ms: int
    grace_ms: int = 0

    def __post_init__(self) -> None:
        _check_not_negative(self.gap_ms, "gap", "Gap time cannot be negative.")
        _check_not_negative(self.grace_ms, "grace", "Grace period cannot be negative.")

    @classmethod
    def of(cls, gap: Duration, *, grace: Duration = _NO_GRACE) -> Self:
        """Define sessions that end after a gap longer than ``gap``.

        Args:
            gap: longest time between neighboring records of a session, such as "30m".
            grace: how long late records are accepted after a session's end and gap, in stream time. Default: 0 ms.
        """
        return cls(duration_ms(gap, "gap"), duration_ms(grace, "grace"))

    @classmethod
    def of_inactivity_gap_with_no_grace(cls, gap: Duration) -> Self:
        """Define sessions that close once stream time is a gap past their end.

        Args:
            gap: longest time between neighboring records of a session, such as "30m".
        """
        return cls.of(gap=gap)

    @classmethod
    def of_inactivity_gap_and_grace(cls, gap: Duration, after_window_end: Duration) -> Self:
        """Define sessions that close a gap and a grace period after their end.

        Args:
            gap: longest time between neighboring records of a session, such as "30m".
            after_window_end: how long late records are accepted after a session's end and gap, in stream time.
        """
        return cls.of(gap=gap, grace=after_window_end)


@dataclass(frozen=True)
class JoinWindows(Suggesting):
    """Defines how far apart two joined records may be: from ``before`` earlier to ``after`` later, inclusive.

    Either side may be negative as long as the span between them is not. ``eager`` is the behavior of Java's deprecated
    ``JoinWindows.of``: an unmatched record is emitted at once, not when its window has closed.

    Args:
        before_ms: how much earlier the other record may be, in milliseconds.
        after_ms: how much later the other record may be, in milliseconds. Default: None, which is refused: `of`
            takes a difference for both.
        grace_ms: how long late records are accepted after a window's end, in milliseconds of stream time. Default: 0.
        eager: emit a record without a match at once, as Java's deprecated windows do. Default: False.
    """

    before_ms: int
    after_ms: int = _NOT_GIVEN  # so that JoinWindows("5m") is refused with a hint
    grace_ms: int = 0
    eager: bool = False

    def __post_init__(self) -> None:
        expect_number(self.before_ms, "before", hint=_OF)
        expect_number(self.after_ms, "after", hint=_OF)
        if not 0 <= self.size_ms <= MAX_TIME_MS:  # a longer sum overflows in Java
            bound = "not be negative" if self.size_ms < 0 else f"be at most {MAX_TIME_MS} ms long"
            fact = f"a join window must {bound}, got {self.before_ms} ms before and {self.after_ms} ms after"
            raise ConfigError(fact, java="Window interval (ie, beforeMs+afterMs) must not be negative.")
        _check_not_negative(self.grace_ms, "grace", "Grace period must not be negative.")

    @property
    def size_ms(self) -> int:
        """Return the length of the windows, in milliseconds."""
        return self.before_ms + self.after_ms

    @classmethod
    def of(
        cls,
        difference: Duration | None = None,
        *,
        before: Duration | None = None,
        after: Duration | None = None,
        grace: Duration = _NO_GRACE,
    ) -> Self:
        """Define how far apart joined records may be: the same difference on both sides, or one for each.

        Java's deprecated ``JoinWindows.of`` is `of_legacy`.

        Args:
            difference: longest time between the two records on either side, such as "5m". Default: None.
            before: how much earlier the other record may be. Default: ``difference``, or 0 ms without one.
            after: how much later the other record may be. Default: ``difference``, or 0 ms without one.
            grace: how long late records are accepted after a window's end, in stream time. Default: 0 ms.

        Raises: ConfigError without a difference, ``before`` or ``after``, or for a string that is not a duration.
        """
        if difference is None and before is None and after is None:
            raise ConfigError("a join window needs a difference, or before and after")
        both = duration_ms(_NO_GRACE if difference is None else difference, "difference")
        start, end = (both if t is None else duration_ms(t, name) for t, name in ((before, "before"), (after, "after")))
        return cls(start, end, duration_ms(grace, "grace"))

    @classmethod
    def of_time_difference_with_no_grace(cls, difference: Duration) -> Self:
        """Define a join of records at most ``difference`` apart, without grace for late ones.

        Args:
            difference: longest time between the two records on either side, such as "5m".
        """
        return cls.of(difference=difference)

    @classmethod
    def of_time_difference_and_grace(cls, difference: Duration, after_window_end: Duration) -> Self:
        """Define a join of records at most ``difference`` apart, with grace for late ones.

        Args:
            difference: longest time between the two records on either side, such as "5m".
            after_window_end: how long late records are accepted after a window's end, in stream time.
        """
        return cls.of(difference=difference, grace=after_window_end)

    @classmethod
    def of_legacy(cls, difference: Duration) -> Self:
        """Define windows as Java's deprecated ``JoinWindows.of``, which emits unmatched records at once.

        The windows and their grace together last one day, or the windows alone if they are longer.

        Args:
            difference: longest time between the two records on either side, such as "5m".
        """
        span_ms = duration_ms(difference, "time difference")
        return cls(span_ms, span_ms, max(_LEGACY_MS - 2 * span_ms, 0), eager=True)

    def before(self, difference: Duration) -> Self:
        """Let the other record be this much earlier.

        Args:
            difference: how much earlier the other record may be, such as "5m".
        """
        return replace(self, before_ms=duration_ms(difference, "before"))

    def after(self, difference: Duration) -> Self:
        """Let the other record be this much later.

        Args:
            difference: how much later the other record may be, such as "5m".
        """
        return replace(self, after_ms=duration_ms(difference, "after"))

    def grace(self, after_window_end: Duration) -> Self:
        """Set how long windows of `of_legacy` accept late records; for other windows, pass ``grace=`` to `of`.

        Args:
            after_window_end: how long late records are accepted after a window's end, in stream time.

        Raises: ConfigError for other windows.
        """
        if not self.eager:
            hint = 'give it with the difference: ks.JoinWindows.of("5m", grace="1m")'
            raise ConfigError("these join windows already have a grace", hint=hint, java=_GRACE)
        return replace(self, grace_ms=duration_ms(after_window_end, "grace"))


@dataclass(frozen=True)
class UnlimitedWindows(Suggesting):
    """One window from a start to the end of time; earlier records are skipped.

    Args:
        start_ms: start of the window in epoch milliseconds. Default: 0.
    """

    start_ms: int = 0

    size_ms: ClassVar[int] = MAX_TIME_MS
    """The size, which has no limit."""
    grace_ms: ClassVar[int] = 0
    """None: the window never closes."""

    def __post_init__(self) -> None:
        _check_not_negative(self.start_ms, "window start", "Window start time (startMs) cannot be negative.")

    @classmethod
    def of(cls, *, start: Instant = 0) -> Self:
        """Define one window from ``start``.

        Args:
            start: start of the window, such as "2026-01-01T00:00Z". Default: the epoch.
        """
        return cls(instant_ms(start, "window start"))

    def start_on(self, start: Instant) -> Self:
        """Define one window from ``start``.

        Args:
            start: start of the window, such as "2026-01-01T00:00Z" or epoch milliseconds.
        """
        return replace(self, start_ms=instant_ms(start, "window start"))

    def windows_for(self, timestamp: int) -> range:
        """Return the window's start, or no window for an earlier record.

        Args:
            timestamp: event time in epoch milliseconds.
        """
        return range(self.start_ms, self.start_ms + (timestamp >= self.start_ms))
