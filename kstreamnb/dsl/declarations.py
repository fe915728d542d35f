"""Declarations: a record of the user's calls, kept in order until a topology is built from them.

A handle (a `KStream`, a `KTable` …) refers to a declaration. Outside notebooks every call adds one. A notebook layer
may give declarations an identity (`Hooks.identities`): when a cell runs again, its new declarations replace those of
its earlier run, and what was made from an old one follows to its successor (`DeclarationLog.succeed`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from copy import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, NamedTuple, TypeAlias, TypeVar, cast

from kstreamnb import hooks
from kstreamnb.core.names import check_resource_name
from kstreamnb.core.record import TopicRecord
from kstreamnb.dsl.flows import GlobalFlow, KeyedFlow, Windowing
from kstreamnb.errors import KStreamError, TopologyError
from kstreamnb.logical.builder import GraphBuilder
from kstreamnb.source_location import SourceLocation, user_origin
from kstreamnb.suggesting import Suggesting

if TYPE_CHECKING:  # a preview runs a topology, which declarations do not depend on
    from kstreamnb.replays.preview import Preview

Flow: TypeAlias = KeyedFlow | GlobalFlow | Windowing | None
"""The result of a declaration in a graph; None for one without a result, such as ``to``."""

Emit: TypeAlias = Callable[..., Flow]
"""``emit(graph, *flows of the parents, **arguments)``: writes a declaration into a graph."""


class Identity(NamedTuple):
    """Identifies a declaration across runs of its cell: its ``key`` within a ``group`` (a cell), made by ``run``."""

    group: Hashable
    run: Hashable
    key: Hashable


class StaleReason(NamedTuple):
    """Why a declaration is stale: the fact, the next action, and what changed as a clause."""

    fact: str
    action: str
    change: str

    def __str__(self) -> str:
        return self.fact


class Identities:
    """Answers of a notebook layer about declarations; outside notebooks every call declares something new."""

    def declaration_log(self, name: str | None) -> DeclarationLog | None:
        """Return the log that a re-run cell continues when it makes a builder again; None for a new one."""
        return None

    def opened(self, log: DeclarationLog) -> None:
        """Take note of a new log."""

    def identity(self, log: DeclarationLog, word: str) -> Identity | None:
        """Return the identity of the next declaration; None for one without counterparts in other runs."""
        return None

    def settle(self, log: DeclarationLog) -> None:
        """Say which declarations succeed others; called before declarations are read."""

    def outdated(self, log: DeclarationLog) -> Mapping[Declaration, StaleReason]:
        """Return declarations made with something that was edited since, each with the reason."""
        return {}

    def lost(self, log: DeclarationLog, child: Declaration, parent: Declaration) -> StaleReason:
        """Return why a declaration lost what it was made from."""
        fact = f"{child} was made from {parent}, which is gone"
        action = 'declare it again, or forget it with builder.forget(handle) or builder.forget("file.py")'
        return StaleReason(fact, action, f"{parent} disappeared")

    def stale(self, log: DeclarationLog, before: tuple[Declaration, ...]) -> str | None:
        """Say what changed in a log since its declarations were ``before``, and what to do; None if nothing did."""
        return None


H = TypeVar("H", bound="Handle")
_OUTSIDE = Identities()


def _identities() -> Identities:
    return hooks.current().identities or _OUTSIDE


@dataclass(eq=False)
class Declaration:
    """One call of the DSL: its ``word``, its parents and arguments, and the user's line.

    ``position`` orders declarations: the number of the cell, and the number of the call within it.
    """

    identity: Identity
    word: str
    emit: Emit
    parents: tuple[Declaration, ...]
    arguments: dict[str, object]
    origin: SourceLocation
    position: tuple[int, int]
    successor: Declaration | None = None

    def latest(self) -> Declaration:
        """Return the last successor, made by a later run of the cell; itself if there is none."""
        latest = self
        while latest.successor is not None:
            latest = latest.successor
        return latest

    def __str__(self) -> str:
        return f'"{self.word}" ({self.origin.place}, line {self.origin.line})'


def parents_first(every: Iterable[Declaration], is_valid: Callable[[Declaration], bool]) -> tuple[Declaration, ...]:
    """Return the valid declarations and all that they were made from, each once and after its parents."""
    done: dict[Declaration, None] = {}

    def visit(declaration: Declaration) -> None:
        if declaration not in done and is_valid(declaration):
            for parent in declaration.parents:
                visit(parent)
            done[declaration] = None

    for declaration in every:
        visit(declaration)
    return tuple(done)


@dataclass(eq=False)
class DeclarationLog:
    """The declarations of one builder, ordered by the first run of their cell and then by their order within it.

    ``persistent`` is the type of stores that do not name one, ``sample`` the records that previews run on.
    """

    name: str | None = None
    persistent: bool = True
    sample: Iterable[TopicRecord] | None = None
    _declarations: dict[Declaration, None] = field(default_factory=dict)
    _runs: dict[Hashable, tuple[Hashable, int]] = field(default_factory=dict)

    @classmethod
    def open(cls, name: str | None) -> DeclarationLog:
        """Return a new log, or the one that the builder's cell made before."""
        log = _identities().declaration_log(name)
        if log is None:
            log = cls(name)
            _identities().opened(log)
        return log

    def begin(self, group: Hashable, run: Hashable) -> None:
        """Start a new run of a group (a cell): its declarations of earlier runs are removed."""
        if group not in self._runs or self._runs[group][0] != run:
            self._runs[group] = (run, 0)
            self._declarations = {each: None for each in self._declarations if each.identity.group != group}

    def groups(self) -> tuple[Hashable, ...]:
        """Return the groups (cells) that declared something, in order of their first run."""
        return tuple(self._runs)

    def succeed(self, successors: Mapping[Declaration, Declaration]) -> None:
        """Replace declarations that were removed by their successors, in handles and as parents."""
        for removed, successor in successors.items():
            removed.successor = successor
        for each in self._declarations:
            if each not in successors.values():
                each.parents = tuple(successors.get(parent, parent) for parent in each.parents)

    def declare(self, word: str, emit: Emit, *parents: Declaration, **arguments: object) -> Declaration:
        """Add a declaration."""
        identity = _identities().identity(self, word) or Identity(None, None, self._runs.get(None, (None, 0))[1])
        self.begin(identity.group, identity.run)
        run, count = self._runs[identity.group]
        self._runs[identity.group] = (run, count + 1)
        position = (self.groups().index(identity.group), count)
        declaration = Declaration(identity, word, emit, parents, arguments, user_origin(), position)
        self._declarations[declaration] = None
        return declaration

    def holds(self, declaration: Declaration) -> bool:
        """Return whether a declaration is valid, that is, not forgotten and made by the last run of its cell."""
        return declaration in self._declarations

    def forget(self, *declarations: Declaration | str) -> None:
        """Remove declarations, or all that a place such as ``cell 3`` made; what was made from them becomes stale.

        Raises: TopologyError when nothing was declared at a place.
        """
        for target in declarations:
            forgotten = [each for each in self._declarations if each is target or each.origin.place == target]
            if isinstance(target, str) and not forgotten:
                cells = dict.fromkeys(each.origin.place for each in self._declarations)
                raise TopologyError(f'nothing was declared in "{target}"', detail=f"declared in {', '.join(cells)}")
            for each in forgotten:
                del self._declarations[each]

    def settle(self) -> None:
        """Let the notebook layer say which declarations succeed others."""
        _identities().settle(self)

    def declarations(self) -> tuple[Declaration, ...]:
        """Return the valid declarations, parents before children and otherwise in order."""
        return parents_first(sorted(self._declarations, key=lambda each: each.position), self.holds)

    def sound(self) -> tuple[Declaration, ...]:
        """Return the valid declarations that are neither stale nor made from something stale."""
        self.settle()
        kept: dict[Declaration, None] = {}
        for declaration in self.declarations():
            if all(parent in kept for parent in declaration.parents):
                kept[declaration] = None
        return tuple(kept)

    def stale(self) -> tuple[tuple[Declaration, Declaration], ...]:
        """Return declarations that lost a parent, each with the one it lost, but not their children."""
        pairs = ((each, parent) for each in self.declarations() for parent in each.parents)
        return tuple((each, parent) for each, parent in pairs if not self.holds(parent))

    @property
    def outdated(self) -> Mapping[Declaration, StaleReason]:
        """Valid declarations made with something that was edited since, each with the reason."""
        return _identities().outdated(self)

    @property
    def lost(self) -> Mapping[Declaration, StaleReason]:
        """Declarations that lost a parent, each with the reason."""
        return {child: _identities().lost(self, child, parent) for child, parent in self.stale()}

    def check(self) -> None:
        """Raise TopologyError when declarations are stale, naming each with its place."""
        self.settle()
        stale = {**self.outdated, **self.lost}
        if stale:
            first, *others = stale.values()
            fact = f"{len(stale)} declaration{'s are' if others else ' is'} stale: {first.fact}"
            detail, origin = "; ".join(each.fact for each in others) or None, next(iter(stale)).origin
            raise TopologyError(fact, detail=detail, hint=first.action, origin=origin)


class BuiltVersion(NamedTuple):
    """The declarations of a log at the moment when a topology was built from them."""

    log: DeclarationLog
    declarations: tuple[Declaration, ...]

    @classmethod
    def of(cls, log: DeclarationLog) -> BuiltVersion:
        """Return the present declarations; copies, because `succeed` changes their parents in place."""
        return cls(log, tuple(copy(each) for each in log.declarations()))

    @property
    def sample(self) -> Iterable[TopicRecord] | None:
        """The builder's present sample."""
        return self.log.sample

    def stale(self) -> str | None:
        """Say what changed since, and the call that builds the topology again; None if nothing did."""
        self.log.settle()
        return _identities().stale(self.log, self.declarations)


_CLASSES: dict[str, type[Handle]] = {}
"""The classes of handles by kind."""


class Handle(Suggesting):
    """The user's reference to a declaration, from which further ones are made.

    ``kind`` names a class; `declare` returns a handle of the class with the wanted name.

    Args:
        log: declarations of the builder that this handle belongs to.
        declaration: the operation whose result the handle stands for.
    """

    kind: ClassVar[str] = ""

    def __init_subclass__(cls, *, kind: str = "") -> None:
        super().__init_subclass__()
        if kind:
            cls.kind = kind
            _CLASSES[kind] = cls

    def __init__(self, log: DeclarationLog, declaration: Declaration) -> None:
        self.declaration_log = log
        self._declaration = declaration

    @property
    def declaration(self) -> Declaration:
        """The declaration; after its cell ran again, the successor."""
        return self._declaration.latest()

    def head(self, sample: Iterable[TopicRecord] | None = None, n: int = 10) -> Preview:
        r"""Return the first records that reach this handle when a sample comes in.

        Args:
            sample: the input records, such as a `Sample`. Default: the builder's ``sample``.
            n: largest number of records to return. Default: 10.

        Raises: ConfigError without a sample, TopologyError when this depends on something stale.

        Example:
            >>> from kstreamnb import Sample, StreamsBuilder
            >>> orders = StreamsBuilder().stream("orders").map_values(lambda order: order * 2)
            >>> print(orders.head(Sample.from_text("topic | key | value \n orders | shoe | 1")))
            1 record, from 1 input record
            key    | value | time
            -------+-------+-----
            "shoe" | 2     | 0
        """
        return cast("Preview", hooks.current().preview(self, sample, n))

    def declare(self, kind: str, word: str, emit: Emit, *others: Handle, **arguments: object) -> H:  # type: ignore[type-var]  # the class follows from the kind, and mypy takes it from the caller
        """Declare an operation on this handle and ``others``; return a handle of a kind.

        Args:
            kind: kind of the new handle, such as "stream".
            word: name of the operation, as errors show it.
            emit: function that adds the operation's nodes to the topology when it is built.
            others: further handles that the operation reads.
            arguments: arguments of the operation, for displays and for ``name``.

        Raises: TopologyError when the name is illegal or the handles are of different builders.
        """
        if arguments.get("name") is not None:
            check_resource_name(arguments["name"])
        for other in others:
            if other.declaration_log is not self.declaration_log:
                fact = f'"{word}" combines streams or tables of two builders'
                detail = f"{self.declaration} and {other.declaration}"
                raise TopologyError(fact, detail=detail, hint="declare both with the same StreamsBuilder")
        parents = (self.declaration, *(other.declaration for other in others))
        declaration = self.declaration_log.declare(word, emit, *parents, **arguments)
        return cast("H", _CLASSES[kind](self.declaration_log, declaration))

    @property
    def origin(self) -> SourceLocation:
        """The user's line that declared it."""
        return self.declaration.origin

    def upstream(self) -> Iterator[Declaration]:
        """Return the declarations that this one depends on, itself last."""
        return iter(parents_first([self.declaration], lambda each: True))

    def __repr__(self) -> str:
        return f"{type(self).__name__} from {self.declaration.word} ({self.declaration.origin})"


def check_kind(handle: object, kind: str, word: str) -> None:
    """Raise TopologyError when an argument of a method is not a handle of a kind."""
    if getattr(type(handle), "kind", "") != kind:
        fact = f'"{word}" takes a {_CLASSES[kind].__name__}, got type "{type(handle).__name__}"'
        hint = f"pass a {kind}, such as builder.{kind}(…)" if kind in ("stream", "table") else None
        raise TopologyError(fact, hint=hint)


class ReplayedDeclarations(NamedTuple):
    """A graph, and what each declaration became in it."""

    graph: GraphBuilder
    flows: dict[Declaration, Flow]


def replay(log: DeclarationLog, declarations: Iterable[Declaration] | None = None) -> ReplayedDeclarations:
    """Write declarations of a log, parents first, into a new graph.

    Args:
        log: the log that the declarations are from.
        declarations: what to write. Default: None, everything declared so far.

    Raises: TopologyError for a stale declaration among everything declared so far.
    """
    if declarations is None:
        log.check()
        declarations = log.declarations()
    graph = GraphBuilder(persistent=log.persistent)
    flows: dict[Declaration, Flow] = {}
    for declaration in declarations:
        graph.origin, graph.word = declaration.origin, declaration.word
        parents = (flows[parent] for parent in declaration.parents)
        try:
            flows[declaration] = declaration.emit(graph, *parents, **declaration.arguments)
        except KStreamError as error:
            error.at(declaration.origin)
            raise
    return ReplayedDeclarations(graph, flows)
