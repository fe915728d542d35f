"""Every error of the package, by kind, and the one form they share.

    KStreamError                          base: something about a topology, its data or its runtime is wrong
    ├── TopologyError(ValueError)         a topology that cannot be built, described or started
    ├── ConfigError(ValueError)           a setting, a duration, an instant or an option that makes no sense
    ├── SerdeError(ValueError)            bytes that cannot be read, or a value that cannot be written
    ├── ProcessingError                   a user's function or an operator failed on a record
    ├── StateError(LookupError)           a store that does not exist, is not connected or was misused
    ├── EngineError(RuntimeError)         base: the runtime (driver, Spark, Kafka) failed or refused
    │   ├── BrokerError                   a broker is unreachable, does not answer in time, or refused a request
    │   │   ├── AccessDeniedError    *    access control or authentication refused the client
    │   │   ├── RecordRefusedError   *    a record that Kafka never accepts: too large, invalid time, no key
    │   │   ├── TransactionTimeoutError   a transaction outlived its timeout; a new one with more time may do
    │   │   └── BufferExhaustedError(BufferError)  a producer's buffer stayed full for too long
    │   ├── UnknownTopicError             a topic that does not exist, or that this user cannot see
    │   │   └── TopicDeletedError    *    a topic of a running query that was deleted
    │   ├── PartitionError           *    a partition that does not exist, or an impossible number of partitions
    │   ├── FencedError              *    a newer deployment of the application took over
    │   ├── CheckpointError          *    a checkpoint that is missing, damaged, foreign, or older than Kafka
    │   ├── DataLossError            *    records or batches that were lost before they were read or published
    │   ├── ApplicationStateError         an application that runs, or does not, when the call needs the opposite
    │   ├── SinkError                     the sink of a query failed with an error of its own
    │   ├── StorageError                  a folder that cannot be written: full, read-only, or not permitted
    │   ├── SparkError                    Spark failed: its session, its workers, or what it cannot run
    │   │   └── JvmGoneError         *    the JVM of a session does not answer any more
    │   └── MissingJavaError         *    no suitable Java was found on this machine
    ├── MissingPackageError(ImportError)  a package that comes with an extra is not installed
    └── UnknownNameError(AttributeError)  a method or an attribute that does not exist, often mistyped

``restartable`` is False for the kinds marked ``*``, which fail again until somebody acts, and True for the others.

An error has one primary line (lower case, one fact, no full stop, the user's words in double quotes).
Detail, hint and location are notes, so that Python and IPython print them under the message. `unknown` makes the
error for a name that does not exist.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, ClassVar, Self

from kstreamnb.hints import did_you_mean, existing, unknown

if TYPE_CHECKING:  # every other module imports this one
    from kstreamnb.core.source_location import SourceLocation

__all__ = [
    "AccessDeniedError",
    "ApplicationStateError",
    "BrokerError",
    "BufferExhaustedError",
    "CheckpointError",
    "ConfigError",
    "DataLossError",
    "EngineError",
    "FencedError",
    "JvmGoneError",
    "KStreamError",
    "MissingJavaError",
    "MissingPackageError",
    "PartitionError",
    "ProcessingError",
    "RecordRefusedError",
    "SerdeError",
    "SinkError",
    "SparkError",
    "StateError",
    "StorageError",
    "TopicDeletedError",
    "TopologyError",
    "TransactionTimeoutError",
    "UnknownNameError",
    "UnknownTopicError",
    "did_you_mean",
    "extra",
    "existing",
    "unknown",
]


class KStreamError(Exception):
    """Base of every error of the package.

    Args:
        message: one fact in lower case, with the user's words in double quotes.
        detail: the circumstances, with numbers and names.
        hint: one action that helps.
        origin: the user's cell or file line that declared the failing node.
        java: the text of Kafka Streams for the same mistake, if it has one.

    Example:
        >>> error = KStreamError('topic "orders" does not exist', detail="topics: prices", hint="create it first")
        >>> print(error, *error.__notes__, sep=chr(10))
        topic "orders" does not exist
        Detail: topics: prices
        Hint: create it first
    """

    def __init__(
        self,
        message: str,
        *,
        detail: str | None = None,
        hint: str | None = None,
        origin: SourceLocation | None = None,
        java: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.detail = detail
        self.hint = hint
        self.origin = origin
        self.java = java
        if detail:
            self.add_note(f"Detail: {detail}")
        if hint:
            self.add_note(f"Hint: {hint}")
        if java and java != message:
            self.add_note(f"Kafka Streams says: {java}")
        if origin is not None:
            self.add_note(f"At: {origin}")

    def at(self, origin: SourceLocation | None) -> Self:
        """Add the user's line, unless the error has one already; return the error."""
        if self.origin is None and origin is not None:
            self.origin = origin
            self.add_note(f"At: {origin}")
        return self

    def named_by(self, name: Callable[[str, int], SourceLocation]) -> Self:
        """Rename the user's line, which a worker could name only by its file; return the error."""
        if self.origin is not None and self.origin.file:
            renamed = name(self.origin.file, self.origin.line)
            notes = [f"At: {renamed}" if note == f"At: {self.origin}" else note for note in self.__notes__]
            self.origin, self.__notes__ = renamed, notes
        return self

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (type(self), self.message, self.__dict__.copy())


def _rebuild(kind: type[KStreamError], message: str, state: dict[str, object]) -> KStreamError:
    error = kind.__new__(kind, message)  # not by its constructor: arguments differ by class
    error.__dict__.update(state)
    return error


class TopologyError(KStreamError, ValueError):
    """A topology that cannot be built, described or started.

    Example:
        >>> issubclass(TopologyError, ValueError)
        True
    """


class ConfigError(KStreamError, ValueError):
    """A setting, duration, instant or option that makes no sense.

    Example:
        >>> from kstreamnb import TimeWindows
        >>> try:
        ...     TimeWindows.of(size="5 parsecs")
        ... except ConfigError as error:
        ...     print(error)
        window size "5 parsecs" is not a duration
    """


class SerdeError(KStreamError, ValueError):
    """Bytes that cannot be read, or a value that its serde cannot write.

    Example:
        >>> from kstreamnb import Serdes
        >>> try:
        ...     Serdes.long().serialize("five")
        ... except SerdeError as error:
        ...     print(error)
        serde "long" cannot write a value of type "str"
    """


class ProcessingError(KStreamError):
    """A user's function or an operator failed on a record; the original is ``__cause__``.

    ``node`` names the node, ``coordinates`` the record (topic, partition, offset, timestamp in ms);
    the key and value are never in the text.

    Example:
        >>> from kstreamnb import StreamsBuilder, TopologyTestDriver
        >>> builder = StreamsBuilder("broken")
        >>> builder.stream("orders").map_values(lambda value: 1 / value).to("out")
        >>> driver = TopologyTestDriver(builder.build())
        >>> try:
        ...     driver.create_input_topic("orders").pipe_input("shoe", 0, at=5)
        ... except ProcessingError as error:
        ...     print(error.node, error.coordinates, repr(error.__cause__))
        KSTREAM-MAPVALUES-0000000001 ('orders', 0, 0, 5) ZeroDivisionError('division by zero')
    """

    def __init__(
        self,
        message: str,
        *,
        node: str = "",
        coordinates: tuple[str, int, int, int] | None = None,
        detail: str | None = None,
        hint: str | None = None,
        origin: SourceLocation | None = None,
        java: str | None = None,
    ) -> None:
        super().__init__(message, detail=detail, hint=hint, origin=origin, java=java)
        self.node, self.coordinates = node, coordinates


class StateError(KStreamError, LookupError):
    """A store that does not exist, is not connected to the node, or was used wrongly.

    Example:
        >>> error = unknown("store", "cuonts", ["counts"], error=StateError)
        >>> print(error, error.hint)
        there is no store "cuonts" did you mean "counts"?
    """


class EngineError(KStreamError, RuntimeError):
    """The runtime around the tasks (driver, Spark, Kafka) failed or refused a request.

    ``restartable`` tells whether a restart may help; uncaught exception handlers are not asked if it is False.

    Example:
        >>> EngineError.restartable, BrokerError.restartable, FencedError.restartable
        (True, True, False)
    """

    restartable: ClassVar[bool] = True


class BrokerError(EngineError):
    """A broker is unreachable, does not answer in time, or refused a request.

    Example:
        >>> BrokerError.restartable
        True
    """


class AccessDeniedError(BrokerError):
    """Access control or authentication refused the client; grant the permission, then deploy again.

    Example:
        >>> issubclass(AccessDeniedError, BrokerError), AccessDeniedError.restartable
        (True, False)
    """

    restartable = False


class RecordRefusedError(BrokerError):
    """Kafka never accepts this record: it is too large, its time is out of range, or its topic needs a key.

    Example:
        >>> issubclass(RecordRefusedError, BrokerError), RecordRefusedError.restartable
        (True, False)
    """

    restartable = False


class TransactionTimeoutError(BrokerError):
    """A transaction outlived ``transaction.timeout.ms``, and Kafka aborted it.

    Example:
        >>> TransactionTimeoutError.restartable
        True
    """


class BufferExhaustedError(BrokerError, BufferError):
    """A producer's buffer stayed full for longer than ``max_block``.

    Example:
        >>> issubclass(BufferExhaustedError, BrokerError), issubclass(BufferExhaustedError, BufferError)
        (True, True)
    """


class UnknownTopicError(EngineError):
    """A topic does not exist, or this user cannot see it.

    Example:
        >>> unknown("topic", "ordres", ["orders"], error=UnknownTopicError).hint
        'did you mean "orders"?'
    """


class TopicDeletedError(UnknownTopicError):
    """A topic of a running query was deleted.

    Example:
        >>> TopicDeletedError.restartable
        False
    """

    restartable = False


class PartitionError(EngineError):
    """A partition does not exist, or the number of partitions is impossible for the application.

    Example:
        >>> PartitionError.restartable
        False
    """

    restartable = False


class FencedError(EngineError):
    """A newer deployment of the application took over; this one publishes nothing more.

    Example:
        >>> FencedError.restartable
        False
    """

    restartable = False


class CheckpointError(EngineError):
    """A checkpoint is missing, damaged, of another application or topology, or older than what Kafka has.

    Example:
        >>> CheckpointError.restartable
        False
    """

    restartable = False


class DataLossError(EngineError):
    """Records or batches were lost before they were read or published.

    Example:
        >>> DataLossError.restartable
        False
    """

    restartable = False


class ApplicationStateError(EngineError):
    """An application runs, or does not run, when the call needs the opposite.

    Example:
        >>> ApplicationStateError.restartable
        True
    """


class SinkError(EngineError):
    """The sink of a query failed; the original error is ``__cause__``.

    Example:
        >>> SinkError.restartable
        True
    """


class StorageError(EngineError):
    """A folder cannot be written: its disk is full or read-only, or a permission is missing.

    Example:
        >>> StorageError.restartable
        True
    """


class SparkError(EngineError):
    """Spark failed: its session, its workers, or a function or topology that it cannot run.

    Example:
        >>> SparkError.restartable
        True
    """


class JvmGoneError(SparkError):
    """The JVM of a Spark session was killed or does not answer any more.

    Example:
        >>> JvmGoneError.restartable
        False
    """

    restartable = False


class MissingJavaError(EngineError):
    """No suitable Java was found on this machine.

    Example:
        >>> MissingJavaError.restartable
        False
    """

    restartable = False


class MissingPackageError(KStreamError, ImportError):
    """A package that comes with an extra of kstreamnb is not installed.

    Example:
        >>> issubclass(MissingPackageError, ImportError)
        True
    """


class UnknownNameError(KStreamError, AttributeError):
    """An object of the package, or the package itself, does not have this method or attribute.

    Example:
        >>> from kstreamnb import StreamsBuilder
        >>> orders = StreamsBuilder().stream("orders")
        >>> try:
        ...     orders.filtr(bool)
        ... except UnknownNameError as error:
        ...     print(error, *error.__notes__, sep=chr(10))
        a KStream has no "filtr"
        Hint: did you mean "filter"?
    """

    def __init__(self, whose: str, name: str, known: Iterable[str], meant: str | None = None) -> None:
        public = [each for each in known if not each.startswith("_")] if meant is None else [meant]
        super().__init__(f'{whose} has no "{name}"', hint=did_you_mean(meant or name, public))
        self.name = name  # tells Python that no further suggestion is needed


@contextmanager
def extra(name: str) -> Iterator[None]:
    """Turn a failed import, in the block or the decorated function, into the hint to install the extra ``name``."""
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package in ("", "kstreamnb"):
            raise
        hint = f'pip install "kstreamnb[{name}]"'
        raise MissingPackageError(f'the package "{package}" is not installed', hint=hint) from error
