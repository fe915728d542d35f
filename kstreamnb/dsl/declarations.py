"""Declarations: what a user's calls leave behind, and the ledger that keeps them until a topology is built.

A handle (a `KStream`, a `KTable` …) refers to a declaration. Outside notebooks every call is a new one. A notebook
layer may give declarations an identity (`Hooks.identities`): what a cell declared in an earlier run is gone when it
runs again, and what was made from it follows to its successor (`DeclarationLog.succeed`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, Protocol, TypeVar

from kstreamnb import hooks
from kstreamnb.core.source_location import SourceLocation, user_origin
from kstreamnb.errors import KStreamError, TopologyError
from kstreamnb.logical.builder import GraphBuilder, check_resource_name
from kstreamnb.suggesting import Suggesting


class Identity(NamedTuple):
    """Which declaration a call makes: its ``key`` within a ``group`` (a cell), of which ``run`` is the present run."""

    group: Hashable
    run: Hashable
    key: Hashable


class Identities(Protocol):
    """What a notebook layer supplies."""

    def ledger(self, name: str | None) -> DeclarationLog | None:
        """The ledger that a re-run cell continues when it makes a builder again; None for a new one."""
        return None

    def opened(self, ledger: DeclarationLog) -> None:
        """Called with every new ledger."""
        return

    def identity(self, ledger: DeclarationLog, word: str) -> Identity | None:
        """The identity of the declaration that is about to be made; None for one that is like no other."""
        return None

    def settle(self, ledger: DeclarationLog) -> None:
        """Called before declarations are looked at: the time to say which of them succeed others."""
        return

    def outdated(self, ledger: DeclarationLog) -> Mapping[Declaration, str]:
        """Declarations that were made with something that was edited since, each with a sentence about it."""
        return {}


class _OutsideNotebooks(Identities):
    """Every call declares something new."""


H = TypeVar("H", bound="Handle")
_OUTSIDE = _OutsideNotebooks()


def _identities() -> Identities:
    installed: Identities | None = hooks.current().identities
    return _OUTSIDE if installed is None else installed


@dataclass(eq=False)
class Declaration:
    """One call of the DSL: its ``word``, what it was called on and with, and the user's line.

    ``emit(draft, *flows, **arguments)`` writes it into a graph, given what its parents became there.
    """

    identity: Identity
    word: str
    emit: Callable[..., Any]
    parents: tuple[Declaration, ...]
    arguments: dict[str, Any]
    origin: SourceLocation
    place: tuple[int, int] = (0, 0)
    successor: Declaration | None = None

    def latest(self) -> Declaration:
        """What stands in its place after cells ran again; itself when nothing does."""
        found = self
        while found.successor is not None:
            found = found.successor
        return found

    def __str__(self) -> str:
        return f'"{self.word}" ({self.origin.place}, line {self.origin.line})'


def _parents_first(
    declarations: Iterable[Declaration], counts: Callable[[Declaration], bool]
) -> tuple[Declaration, ...]:
    """Declarations and all that they were made from, as far as it counts, each once and after its parents."""
    done: dict[Declaration, None] = {}

    def visit(declaration: Declaration) -> None:
        if declaration not in done and counts(declaration):
            for parent in declaration.parents:
                visit(parent)
            done[declaration] = None

    for declaration in declarations:
        visit(declaration)
    return tuple(done)


@dataclass(eq=False)
class DeclarationLog:
    """The declarations of one builder, in the order in which their cells, and within a cell they, first appeared.

    ``persistent`` is what the builder's stores are unless they say otherwise, ``sample`` what previews run on.
    """

    name: str | None = None
    persistent: bool = True
    sample: Any = None
    _held: dict[tuple[Hashable, Hashable], Declaration] = field(default_factory=dict)
    _runs: dict[Hashable, tuple[Hashable, int]] = field(default_factory=dict)

    @classmethod
    def open(cls, name: str | None) -> DeclarationLog:
        """A new ledger, or the one that the builder's cell made before."""
        ledger = _identities().ledger(name)
        if ledger is None:
            ledger = cls(name)
            _identities().opened(ledger)
        return ledger

    def begin(self, group: Hashable, run: Hashable) -> None:
        """Say that a group (a cell) runs anew: until they are declared again, its declarations are gone."""
        if group not in self._runs or self._runs[group][0] != run:
            self._runs[group] = (run, 0)
            self._held = {key: held for key, held in self._held.items() if key[0] != group}

    def groups(self) -> tuple[Hashable, ...]:
        """The groups (cells) that declared something, in order of their first run."""
        return tuple(self._runs)

    def succeed(self, successors: Mapping[Declaration, Declaration]) -> None:
        """Let what was made from a declaration that is gone, and handles of it, follow to its successor."""
        for gone, successor in successors.items():
            gone.successor = successor
        for held in self._held.values():
            if held not in successors.values():
                held.parents = tuple(successors.get(parent, parent) for parent in held.parents)

    def declare(
        self, word: str, emit: Callable[..., Any], parents: tuple[Declaration, ...], arguments: dict[str, Any]
    ) -> Declaration:
        """Add a declaration, or change the one of the same identity in place."""
        identity = _identities().identity(self, word) or Identity(None, None, self._runs.get(None, (None, 0))[1])
        self.begin(identity.group, identity.run)
        run, count = self._runs[identity.group]
        self._runs[identity.group] = (run, count + 1)
        made = Declaration(identity, word, emit, parents, arguments, user_origin())
        made.place = (self.groups().index(identity.group), count)
        held = self._held.setdefault((identity.group, identity.key), made)
        if held is not made:
            held.__dict__.update(made.__dict__)
        return held

    def holds(self, declaration: Declaration) -> bool:
        """Whether a declaration still counts: it was not forgotten, and its cell's last run made it."""
        group, run, key = declaration.identity
        return self._held.get((group, key)) is declaration and self._runs[group][0] == run

    def forget(self, *declarations: Declaration | str) -> None:
        """Take declarations out, or all that a place such as ``cell 3`` made; what was made from them is stale.

        Raises: TopologyError when nothing was declared at a place.
        """
        for thing in declarations:
            gone = [key for key, held in self._held.items() if held is thing or held.origin.place == thing]
            if isinstance(thing, str) and not gone:
                places = dict.fromkeys(held.origin.place for held in self._held.values())
                raise TopologyError(f'nothing was declared in "{thing}"', detail=f"there are {', '.join(places)}")
            for key in gone:
                del self._held[key]

    def settle(self) -> None:
        """Let the notebook layer say which declarations succeed others."""
        _identities().settle(self)

    def declarations(self) -> tuple[Declaration, ...]:
        """What counts, parents before children and otherwise in order."""
        return _parents_first(sorted(self._held.values(), key=lambda held: held.place), self.holds)

    def sound(self) -> tuple[Declaration, ...]:
        """What counts and is not stale, nor made from something stale."""
        self.settle()
        kept: dict[Declaration, None] = {}
        for declaration in self.declarations():
            if all(parent in kept for parent in declaration.parents):
                kept[declaration] = None
        return tuple(kept)

    def stale(self) -> tuple[tuple[Declaration, Declaration], ...]:
        """Declarations that lost a parent, each with the one it lost; their own children are not listed."""
        pairs = ((each, parent) for each in self.declarations() for parent in each.parents)
        return tuple((each, parent) for each, parent in pairs if not self.holds(parent))

    @property
    def outdated(self) -> Mapping[Declaration, str]:
        """What counts but was made with something that was edited since, each with a sentence about it."""
        return _identities().outdated(self)

    def check(self) -> None:
        """Raise TopologyError when declarations are stale, naming each with its place."""
        self.settle()
        lost = {child: f"{child} was made from {parent}" for child, parent in self.stale()}
        edited = {child: why for child, why in self.outdated.items() if child not in lost}
        stale = {**lost, **edited}
        if stale:
            reasons = ["what went before is gone"] * bool(lost) + ["what they were made with was edited"] * bool(edited)
            raise TopologyError(
                f"{len(stale)} declaration{'s are' if len(stale) > 1 else ' is'} stale: {' and '.join(reasons)}",
                detail="; ".join(stale.values()),
                hint='run those cells again, or forget them with builder.forget(handle) or builder.forget("cell …")',
                origin=next(iter(stale)).origin,
            )


class Handle(Suggesting):
    """What a user holds: a reference to a declaration, from which further ones are made.

    ``kind`` is a class's word; `declare` gives a handle of the class with the wanted word.
    """

    kind: ClassVar[str] = ""
    _kinds: ClassVar[dict[str, type[Handle]]] = {}

    def __init_subclass__(cls, *, kind: str = "") -> None:
        super().__init_subclass__()
        if kind:
            cls.kind = kind
            Handle._kinds[kind] = cls

    def __init__(self, ledger: DeclarationLog, declaration: Declaration) -> None:
        self.ledger = ledger
        self._declaration = declaration

    @property
    def declaration(self) -> Declaration:
        """What it stands for; after its cell ran again, the successor."""
        return self._declaration.latest()

    def head(self, sample: Any = None, n: int = 10) -> Any:
        r"""The first ``n`` records that reach it when a sample (or the builder's own ``sample``) comes in.

        Raises: TopologyError when there is no sample, or when it depends on something stale.

        Example:
            >>> from kstreamnb import Sample, StreamsBuilder
            >>> orders = StreamsBuilder().stream("orders").map_values(lambda order: order * 2)
            >>> print(orders.head(Sample.from_text("topic | key | value \n orders | shoe | 1")))
            1 of 1 records, from 1 input records
            key    | value | time
            -------+-------+-----
            "shoe" | 2     | 0
        """
        preview = hooks.current().preview
        return None if preview is None else preview(self, sample, n)

    def declare(self, result: str, verb: str, emit: Callable[..., Any], *others: Handle, **arguments: Any) -> H:  # type: ignore[type-var]  # the class follows from the kind, and mypy takes it from the caller
        """Declare an operation on this handle and ``others``; the result is a handle of the kind ``result``.

        Raises: TopologyError when the name is illegal or the handles are of different builders.
        """
        if arguments.get("name") is not None:
            check_resource_name(arguments["name"])
        for other in others:
            if other.ledger is not self.ledger:
                raise TopologyError(
                    f'"{verb}" brings together handles of two builders',
                    detail=f"{self.declaration} and {other.declaration}",
                    hint="declare both with the same StreamsBuilder",
                )
        parents = (self.declaration, *(other.declaration for other in others))
        made: H = Handle._kinds[result](self.ledger, self.ledger.declare(verb, emit, parents, arguments))  # type: ignore[assignment]
        return made

    @property
    def origin(self) -> SourceLocation:
        """The user's line that declared it."""
        return self.declaration.origin

    def upstream(self) -> Iterator[Declaration]:
        """The declarations that this one depends on, itself last."""
        return iter(_parents_first([self.declaration], lambda each: True))

    def __repr__(self) -> str:
        return f"{type(self).__name__} from {self.declaration.word} ({self.declaration.origin})"


@dataclass(frozen=True)
class ReplayedDeclarations:
    """A draft, and what each declaration became in it."""

    draft: GraphBuilder
    flows: dict[Declaration, Any]


def replay(declarations: Iterable[Declaration], *, persistent: bool = True) -> ReplayedDeclarations:
    """Write declarations, parents first, into a new draft."""
    draft = GraphBuilder(persistent=persistent)
    flows: dict[Declaration, Any] = {}
    for declaration in declarations:
        draft.origin, draft.word = declaration.origin, declaration.word
        parents = (flows[parent] for parent in declaration.parents)
        try:
            flows[declaration] = declaration.emit(draft, *parents, **declaration.arguments)
        except KStreamError as error:
            error.at(declaration.origin)
            raise
    return ReplayedDeclarations(draft, flows)


def flow_of(handle: Handle) -> Any:
    """What a handle became when everything that was declared so far is replayed."""
    handle.ledger.check()
    return replay(handle.ledger.declarations(), persistent=handle.ledger.persistent).flows[handle.declaration]
