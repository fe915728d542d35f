"""Every error the kit raises, and the one form they share.

    KStreamError                    something about a topology, its data or its runtime is wrong
    ├── TopologyError(ValueError)   a topology that cannot be built, described or started
    ├── ConfigError(ValueError)     a setting, a duration, an instant or an option that makes no sense
    ├── SerdeError(ValueError)      bytes that cannot be read, or a value that cannot be written
    ├── ProcessingError             a user's function or an operator failed on a record
    ├── StateError(LookupError)     a store that does not exist, is not connected or was used wrongly
    ├── EngineError(RuntimeError)   the runtime around the tasks (driver, Spark, Kafka) failed or refused
    │   └── BufferExhaustedError(BufferError)  a producer had no room for a record, and none came in time
    ├── MissingPackageError(ImportError)  what was asked for needs an extra of the kit that is not installed
    └── UnknownNameError(AttributeError)  a method or a name that does not exist, often mistyped

An error has one primary line (lower case, one fact, no full stop, the user's words in double quotes).
Detail, hint and place are notes, so that Python and IPython print them under the message.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, ClassVar, Self

if TYPE_CHECKING:  # the tree stands below every other module
    from kstreamnb.core.source_location import SourceLocation

__all__ = [
    "BufferExhaustedError",
    "ConfigError",
    "EngineError",
    "KStreamError",
    "MissingPackageError",
    "ProcessingError",
    "SerdeError",
    "StateError",
    "Suggesting",
    "TopologyError",
    "UnknownNameError",
    "did_you_mean",
    "extra",
]


class KStreamError(Exception):
    """Base of every error of the kit.

    Args:
        message: one fact in lower case, with the user's words in double quotes.
        detail: what was found where, with numbers and names.
        hint: what to do about it.
        origin: the user's cell or file line that declared the failing thing.
        java: the text of Kafka Streams for the same mistake, where it has one.

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
        """The same error with the user's line, unless it has one already."""
        if self.origin is None and origin is not None:
            self.origin = origin
            self.add_note(f"At: {origin}")
        return self

    def named_by(self, name: Callable[[str, int], SourceLocation]) -> Self:
        """The same error with its line named anew from file and line, where another process named it that knew less."""
        if self.origin is not None and self.origin.file:
            found = name(self.origin.file, self.origin.line)
            notes = [f"At: {found}" if note == f"At: {self.origin}" else note for note in self.__notes__]
            self.origin, self.__notes__ = found, notes
        return self

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (type(self), self.message, self.__dict__.copy())

    @classmethod
    def _from_state(cls, message: str, state: dict[str, object]) -> Self:
        error = cls.__new__(cls)
        Exception.__init__(error, message)
        error.__dict__.update(state)
        return error


def _rebuild(kind: type[KStreamError], message: str, state: dict[str, object]) -> KStreamError:
    return kind._from_state(message, state)  # noqa: SLF001 - the other half of __reduce__


class TopologyError(KStreamError, ValueError):
    """A topology that cannot be built, described or started.

    Example:
        >>> from kstreamnb import StreamsBuilder
        >>> builder = StreamsBuilder("twice")
        >>> orders, again = builder.stream("orders"), builder.table("orders")
        >>> try:
        ...     builder.build()
        ... except TopologyError as error:
        ...     print(error)
        topic "orders" is read both as a stream and as a table
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
        >>> from kstreamnb import StreamsBuilder, TopologyTestDriver
        >>> builder = StreamsBuilder("stateless")
        >>> builder.stream("orders").to("out")
        >>> try:
        ...     TopologyTestDriver(builder.build()).get_key_value_store("counts")
        ... except StateError as error:
        ...     print(error)
    """


class EngineError(KStreamError, RuntimeError):
    """The runtime around the tasks (driver, Spark, Kafka) failed or refused.

    ``restartable`` says whether trying again may help.

    Example:
        >>> from kstreamnb import StreamsBuilder, TopologyTestDriver
        >>> builder = StreamsBuilder("one-topic")
        >>> builder.stream("orders").to("out")
        >>> try:
        ...     TopologyTestDriver(builder.build()).create_input_topic("bills").pipe_input("a", 1)
        ... except EngineError as error:
        ...     print(error)
        no source of the topology reads topic "bills"
    """

    restartable: bool = True

    @classmethod
    def final(cls, message: str, *, detail: str, hint: str) -> Self:
        """An error that no start by itself helps against: a person has to decide."""
        error = cls(message, detail=detail, hint=hint)
        error.restartable = False
        return error


class BufferExhaustedError(EngineError, BufferError):
    """A producer's buffer was full, and what waits in it could not be sent within ``max_block``.

    Example:
        >>> from kstreamnb.simulation import Log
        >>> log = Log()
        >>> log.create_topic("logs")
        >>> producer = log.producer(buffer_bytes=8, max_block="10ms")
        >>> log.fail(1)
        >>> sent = producer.send("logs", None, "first")
        >>> try:
        ...     producer.send("logs", None, "second")
        ... except BufferExhaustedError as error:
        ...     print(error)
        the producer's buffer has no room for a record of topic "logs"
    """


class MissingPackageError(KStreamError, ImportError):
    """What was asked for needs a package that comes with an extra of the kit, and is not installed.

    Example:
        >>> try:
        ...     with extra("notebook"):
        ...         import a_package_that_is_not_there
        ... except MissingPackageError as error:
        ...     print(error, *error.__notes__, sep=chr(10))
        the package "a_package_that_is_not_there" is not installed
        Hint: pip install "kstreamnb[notebook]"
    """


class UnknownNameError(KStreamError, AttributeError):
    """A method or an attribute that a thing of the kit, or the kit itself, does not have.

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
        self.name = name  # says to Python that no further suggestion is needed


class Suggesting:
    """What answers a name that it does not have with the one that was probably meant.

    Names with an underscore are asked for by Python and by notebooks, and get Python's own answer.
    """

    _elsewhere: ClassVar[Mapping[str, str]] = {}
    """What a method is called here that has a quite different name elsewhere."""

    if not TYPE_CHECKING:  # or a type checker would take every name for one that exists

        def __getattr__(self, name):
            if name.startswith("_") or hasattr(type(self), name):
                return object.__getattribute__(self, name)
            kind, meant = type(self).__name__, self._elsewhere.get(name)
            raise UnknownNameError(f"{'an' if kind[0] in 'AEIOU' else 'a'} {kind}", name, dir(self), meant)


def did_you_mean(word: object, known: Iterable[str]) -> str | None:
    """The hint for a word that is not among those known: the nearest of them, None where none is near.

    Example:
        >>> did_you_mean("cuonts", ["counts", "totals"])
        'did you mean "counts"?'
    """
    near = difflib.get_close_matches(str(word), list(known), 1)
    return f'did you mean "{near[0]}"?' if near else None


@contextmanager
def extra(name: str) -> Iterator[None]:
    """Whatever is imported in the block, or in the function it decorates, comes with the extra ``name``."""
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package in ("", "kstreamnb"):
            raise
        hint = f'pip install "kstreamnb[{name}]"'
        raise MissingPackageError(f'the package "{package}" is not installed', hint=hint) from error


# --- what Kafka Streams says at length; errors carry it beside their own words (``java``) ----------------------------
STORE_NOT_CONNECTED = (
    "Processor {node} has no access to StateStore {store} as the store is not connected to the processor. "
    "If you add stores manually via '.addStateStore()' make sure to connect the added store to the processor "
    "by providing the processor name to '.addStateStore()' or connect them via '.connectProcessorAndStateStores()'. "
    "DSL users need to provide the store name to '.process()', '.processValues()', or '.transformValues()' to connect "
    "the store to the corresponding operator, or they can provide a StoreBuilder by implementing the stores() method "
    "on the Supplier itself. If you do not add stores manually, please file a bug report at "
    "https://issues.apache.org/jira/projects/KAFKA."
)
CANNOT_READ = (
    "Deserialization exception handler is set to fail upon a deserialization error. If you would rather have the "
    "streaming pipeline continue after a deserialization error, please set the deserialization.exception.handler "
    "appropriately."
)
NOT_COMPUTED = (
    "Failed to compute number of partitions for all repartition topics, make sure all user input topics are created "
    "and all Pattern subscriptions match at least one topic in the cluster"
)
ACCEPTABLE_OPTIMISATIONS = (
    'Acceptable values are: "+NO_OPTIMIZATION+", "+OPTIMIZE+", or a comma separated list of specific optimizations: '
    '("+REUSE_KTABLE_SOURCE_TOPICS+", "+MERGE_REPARTITION_TOPICS+" + "SINGLE_STORE_SELF_JOIN+").'
)
LIST_NOT_FIXED = (
    "Data is encoded as constant size entries, but configured inner deserializer is not a known fixed-size "
    "deserializer."
)
