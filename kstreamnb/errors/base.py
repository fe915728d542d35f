"""The base of every error, and the kinds that are not about the runtime."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Self

from kstreamnb.hints import did_you_mean, existing, from_java
from kstreamnb.masking import clean_lines

if TYPE_CHECKING:  # every other module imports this one
    from kstreamnb.source_location import SourceLocation


DOCUMENTATION = "https://kstreamnb.github.io/kstreamnb/"
LINK = "More: "
_FEW = 10


def notes_without_link(error: BaseException) -> list[str]:
    """Return the notes of an error but for the link to its page."""
    return [note for note in getattr(error, "__notes__", ()) if not note.startswith(LINK)]


class KStreamError(Exception):
    """Base of every error of the package.

    Cause: the message says what was wrong with which value, "Detail:" gives the circumstances, and "At:" the line.

    Remedy: follow "Hint:", which names one action. `except ks.KStreamError` catches every error of the package, and no
    error of a user's own code.

    Args:
        message: one fact in lower case, with the user's words in double quotes.
        detail: the circumstances, with numbers and names. Default: none.
        hint: one action that helps. Default: none.
        origin: the user's cell or file line that declared the failing node. Default: None.
        java: the text of Kafka Streams for the same mistake, if it has one. Default: None.

    Example:
        >>> error = KStreamError('topic "orders" does not exist', detail="topics: prices", hint="create it first")
        >>> print(error, *error.__notes__, sep=chr(10))
        topic "orders" does not exist
        Detail: topics: prices
        Hint: create it first
        More: https://kstreamnb.github.io/kstreamnb/errors/kstreamerror.html
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
        message = clean_lines(message)  # texts may quote what strangers wrote, and are printed on terminals
        detail, hint = (text and clean_lines(text) for text in (detail, hint))
        super().__init__(message)
        self.message = message
        self.detail = detail
        self.hint = hint
        self.origin = origin
        self.java = java
        known = None if java == message else java
        for label, text in {"Detail": detail, "Hint": hint, "Kafka Streams says": known, "At": origin}.items():
            if text:
                self.add_note(f"{label}: {text}")
        super().add_note(f"{LINK}{self.url}")

    def add_note(self, note: str) -> None:
        """Add a line to what tracebacks print; the link to the error's page stays the last one.

        Args:
            note: the line.
        """
        super().add_note(clean_lines(note))
        self.__notes__.sort(key=lambda each: each.startswith(LINK))

    @property
    def url(self) -> str:
        """The address of the page about this kind of error."""
        kind = next(kind for kind in type(self).__mro__ if kind.__module__ == __package__)
        return f"{DOCUMENTATION}errors/{kind.__name__.lower()}.html"

    def at(self, origin: SourceLocation | None) -> Self:
        """Add the user's line, unless the error has one already; return the error.

        Args:
            origin: the line that declared the failing node, or None.
        """
        if self.origin is None and origin is not None:
            self.origin = origin
            self.add_note(f"At: {origin}")
        return self

    def named_by(self, name: Callable[[str, int], SourceLocation]) -> Self:
        """Rename the user's line, which a worker could name only by its file; return the error.

        Args:
            name: function ``(file, line) -> location`` that knows the notebook's cells.
        """
        if self.origin is not None and self.origin.file:
            renamed = name(self.origin.file, self.origin.line)
            notes = [f"At: {renamed}" if note == clean_lines(f"At: {self.origin}") else note for note in self.__notes__]
            self.origin, self.__notes__ = renamed, notes
        return self

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (type(self), self.message, self.__dict__.copy())


def _rebuild(kind: type[KStreamError], message: str, state: dict[str, object]) -> KStreamError:
    error = kind.__new__(kind, message)  # not by its constructor: arguments differ by class
    error.__dict__.update(state)
    return error


class TopologyError(KStreamError, ValueError):
    """A topology cannot be built, described or started.

    Cause: two nodes have the same name, a parent or a store does not exist, topics that are joined have different
    numbers of partitions, or an operator is used in a way that Kafka Streams refuses as well.

    Remedy: correct the declaration at the line after "At:". `topology.describe()` shows the names that exist, and
    `ks.testing.check(topology)` finds more of these mistakes before anything runs.

    Example:
        >>> from kstreamnb import Topology
        >>> try:
        ...     Topology().add_sink("totals", "totals", "count")
        ... except TopologyError as error:
        ...     print(error)
        parent "count" of node "totals" does not exist
    """


class ConfigError(KStreamError, ValueError):
    """A setting, duration, instant or option is not valid.

    Cause: the value has the wrong type or form, is out of range, or contradicts another one; or the name of a setting
    is unknown.

    Remedy: give what the message expects, with its unit. `ks.config_report(config)` lists how each setting is handled.

    Example:
        >>> from kstreamnb import TimeWindows
        >>> try:
        ...     TimeWindows.of(size="5 parsecs")
        ... except ConfigError as error:
        ...     print(error)
        window size "5 parsecs" is not a duration
    """


class SerdeError(KStreamError, ValueError):
    """Bytes cannot be read, or a value cannot be written by its serde.

    Cause: the serde of a topic or store does not fit its data: text where a long is expected, bytes that are not JSON,
    a schema that the registry does not have.

    Remedy: declare the serde with `key_serde=` and `value_serde=` where the data enters, or let the deserialization
    handler continue and send such records to a dead-letter topic.

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

    ``node`` names the node, ``coordinates`` the record (topic, partition, offset, timestamp in ms); ``record`` is its
    key and value. Notebooks display key and value; the text, which logs keep, never contains them.

    Args:
        message: one fact in lower case, with the user's words in double quotes.
        node: name of the node. Default: "".
        coordinates: topic, partition, offset and timestamp (epoch milliseconds) of the record. Default: None.
        detail: the circumstances, with numbers and names. Default: None.
        hint: one action that helps. Default: None.
        origin: the user's line that declared the node. Default: None.
        java: the text of Kafka Streams for the same mistake. Default: None.

    Cause: a function met a record that it does not expect, such as a missing field or a zero.

    Remedy: look at the record (`sample.where`, or `ks.Sample.capture` from its offset), then handle it in the function;
    or set `processing.exception.handler` to "continue" and name a dead-letter topic.

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
        self.record: tuple[object, object] | None = None

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (type(self), self.message, {**self.__dict__, "record": None})


class StateError(KStreamError, LookupError):
    """A store does not exist, is not connected to the node, or was used wrongly.

    Cause: the name is mistyped, the processor was added without the name of its store, or a method belongs to another
    kind of store.

    Remedy: use a name that the error lists; name the store when you add the processor.

    Example:
        >>> from kstreamnb import StreamsBuilder, TopologyTestDriver
        >>> builder = StreamsBuilder("shop")
        >>> builder.stream("orders").group_by_key().count(store="counts").to_stream().to("totals")
        >>> try:
        ...     TopologyTestDriver(builder.build()).store("cuonts")
        ... except StateError as error:
        ...     print(f"{error}: {error.hint}")
        store "cuonts" does not exist: did you mean "counts"?
    """


class MissingPackageError(KStreamError, ImportError):
    """A package that comes with an extra of kstreamnb is not installed, or its version is not supported.

    Cause: `pip install kstreamnb` installs only the driver, samples and diagrams, and leaves older versions of other
    packages, such as IPython, as they are.

    Remedy: install the extra that the hint names; `kstreamnb doctor` lists all of them.

    Example:
        >>> import sys
        >>> from unittest.mock import patch
        >>> from kstreamnb import read_config
        >>> try:
        ...     with patch.dict(sys.modules, {"yaml": None}):  # as if it were not there
        ...         read_config("application.yaml")
        ... except MissingPackageError as error:
        ...     print(f"{error}: {error.hint}")
        the package "yaml" is not installed: pip install "kstreamnb[yaml]"
    """


class UnknownNameError(KStreamError, AttributeError):
    """An object of the package, or the package itself, does not have this method or attribute.

    Args:
        whose: the object or class, such as "a KStream".
        name: the name that does not exist.
        known: names that exist, among which the nearest is suggested.
        meant: the name to suggest, if it is known already. Default: None.

    Cause: the name is mistyped, is Java's spelling, or belongs to another class.

    Remedy: use the name that the hint suggests; the page Java's names lists Java's beside ours.

    Example:
        >>> from kstreamnb import StreamsBuilder
        >>> orders = StreamsBuilder().stream("orders")
        >>> try:
        ...     orders.filtr(bool)
        ... except UnknownNameError as error:
        ...     print(error, *error.__notes__, sep=chr(10))
        a KStream has no "filtr"
        Hint: did you mean "filter"?
        More: https://kstreamnb.github.io/kstreamnb/errors/unknownnameerror.html
    """

    def __init__(self, whose: str, name: str, known: Iterable[str], meant: str | None = None) -> None:
        public = [each for each in known if not each.startswith("_")] if meant is None else [meant]
        hint = from_java(meant or name, public) or did_you_mean(meant or name, public)
        detail = existing(public) if hint is None and 0 < len(public) <= _FEW else None
        super().__init__(f'{whose} has no "{name}"', detail=detail, hint=hint)
        self.name = name  # tells Python that no further suggestion is needed


@contextmanager
def extra(name: str) -> Iterator[None]:
    """Turn a failed import, in the block or the decorated function, into the hint to install the extra ``name``."""
    try:
        yield
    except ImportError as error:
        package = (error.name or "").partition(".")[0]
        if package in ("", "kstreamnb"):
            raise
        fact = "is not installed" if isinstance(error, ModuleNotFoundError) else "has an unsupported version"
        raise MissingPackageError(f'the package "{package}" {fact}', hint=f'pip install "kstreamnb[{name}]"') from error
