"""`BranchedKStream`: a stream that is being split into branches."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, NoReturn, Self, TypeAlias

import attrs

from kstreamnb.core.signatures import RECORD, taking
from kstreamnb.dsl.declarations import Declaration, DeclarationLog, Handle
from kstreamnb.dsl.keywords import combined
from kstreamnb.dsl.option_fields import Options, Setting, check_any_name, check_function
from kstreamnb.dsl.stream_graph import emit_branch
from kstreamnb.dsl.type_vars import K, RecordPredicate, V
from kstreamnb.errors import ConfigError, TopologyError, did_you_mean, unknown

if TYPE_CHECKING:  # streams and tables are made of these classes
    from kstreamnb.dsl.kstream import KStream


BranchFunction: TypeAlias = "Callable[[KStream[Any, Any]], KStream[Any, Any] | None]"
"""Changes the stream of a branch; None leaves the branch out of the result."""

BranchConsumer: TypeAlias = "Callable[[KStream[Any, Any]], object]"
"""Uses the stream of a branch; the result is ignored."""


@attrs.frozen(slots=False)
class Branched(Options):
    """Name of one branch of a split, and a function or consumer of its stream.

    Args:
        name: suffix of the branch's name. Default: its number, "0" for the default branch.
        function: receives the branch's stream and returns the one to use in the result; None leaves it out.
            Default: the stream as it is.
        consumer: receives the branch's stream, which is then not in the result. Default: none.

    Raises: ConfigError when both a function and a consumer are given.

    Example:
        >>> from kstreamnb import StreamsBuilder
        >>> orders = StreamsBuilder().stream("orders")
        >>> large = Branched.with_consumer(lambda stream: stream.to("large"))
        >>> orders.split().branch(lambda key, pieces: pieces > 9, large).no_default_branch()
        {}
    """

    name: str | None = attrs.field(default=None, validator=check_any_name)
    function: BranchFunction | None = attrs.field(default=None, validator=check_function)
    consumer: BranchConsumer | None = attrs.field(default=None, validator=check_function)

    def __attrs_post_init__(self) -> None:
        if self.function is not None and self.consumer is not None:
            raise ConfigError("a branch takes a function or a consumer, not both", hint="remove one of them")

    with_name = Setting[str]("name")

    @classmethod
    def as_(cls, name: str) -> Self:
        """Return options with this name.

        Args:
            name: name of the branch, which is appended to the prefix of the split.
        """
        return cls(name)

    @classmethod
    def with_function(cls, function: BranchFunction, name: str | None = None) -> Self:
        """Return options of a branch that a function changes.

        Args:
            function: function ``(stream) -> stream``; its result replaces the branch.
            name: name of the branch. Default: None, its number.
        """
        return cls(name, function)

    @classmethod
    def with_consumer(cls, consumer: BranchConsumer, name: str | None = None) -> Self:
        """Return options of a branch that ends in a consumer.

        Args:
            consumer: function ``(stream) -> None``; gets the branch, which is then not in the result of the split.
            name: name of the branch. Default: None, its number.
        """
        return cls(name, None, consumer)


class _Branches(dict[str, Any]):
    """The branches of a split by name; a wrong name is answered with the nearest one."""

    def __missing__(self, name: str) -> NoReturn:
        # The prefix of the split is part of a name, and one letter after it is not near for `did_you_mean`.
        near = next((each for each in self if each.endswith(f"-{name}")), None)
        hint = f'did you mean "{near}"?' if near and did_you_mean(name, self) is None else None
        raise unknown("branch", name, self, error=TopologyError, hint=hint)


class BranchedKStream(Handle, Generic[K, V], kind="split"):
    """A stream that is being split: add branches, then end with `default_branch` or `no_default_branch`.

    Args:
        declaration_log: declarations of the builder that the stream belongs to.
        declaration: the split.

    Example:
        >>> from kstreamnb import StreamsBuilder, head
        >>> orders = StreamsBuilder().stream("orders")
        >>> split = orders.split(name="by-size-").branch(lambda key, pieces: pieces > 9, name="large")
        >>> branches = split.default_branch(name="small")
        >>> sorted(branches)
        ['by-size-large', 'by-size-small']
        >>> head(branches["by-size-large"], {"orders": [("a", 10), ("b", 1)]})
        [('a', 10, 0)]
    """

    prefix: str = ""

    def __init__(self, declaration_log: DeclarationLog, declaration: Declaration) -> None:
        super().__init__(declaration_log, declaration)
        self.branches: dict[str, KStream[K, V]] = _Branches()
        self._count = 0

    def branch(
        self, predicate: RecordPredicate[K, V], branched: Branched | None = None, *, name: str | None = None
    ) -> BranchedKStream[K, V]:
        """Add a branch for the records for which a predicate holds and no earlier one did.

        Shape: KStream[K, V] -> KStream[K, V]; 1 -> at most 1; key kept; store: no; repartition: no.

        Args:
            predicate: function ``(key, value)``; a true result sends the record to this branch.
            branched: name of the branch, and a function or consumer of its stream. Default: the stream as it is.
            name: suffix of the branch's name. Default: its number, from "1".

        Example:
            >>> from kstreamnb import StreamsBuilder, head
            >>> split = StreamsBuilder().stream("orders").split(name="by-size-")
            >>> large = split.branch(lambda key, pieces: pieces > 9, name="large").no_default_branch()["by-size-large"]
            >>> head(large, {"orders": [("a", 10), ("b", 1)]})
            [('a', 10, 0)]

        Source: Kafka Streams `BranchedKStream#branch`; differences: none.
        """
        options = combined(Branched, branched, name=name)
        self._count += 1
        self._add(taking(predicate, *RECORD), options, self._count)
        return self

    def default_branch(self, branched: Branched | None = None, *, name: str | None = None) -> dict[str, KStream[K, V]]:
        """Add a branch for all other records, and return the branches by name.

        Shape: KStream[K, V] -> KStream[K, V]; 1 -> at most 1; key kept; store: no; repartition: no.

        Args:
            branched: name of the branch, and a function or consumer of its stream. Default: the stream as it is.
            name: suffix of the branch's name. Default: "0".

        Example:
            >>> from kstreamnb import StreamsBuilder, head
            >>> split = StreamsBuilder().stream("orders").split(name="by-size-")
            >>> rest = split.branch(lambda key, pieces: pieces > 9).default_branch(name="small")["by-size-small"]
            >>> head(rest, {"orders": [("a", 10), ("b", 1)]})
            [('b', 1, 1)]

        Source: Kafka Streams `BranchedKStream#defaultBranch`; differences: none.
        """
        self._add(None, combined(Branched, branched, name=name), 0)
        return self.branches

    def no_default_branch(self) -> dict[str, KStream[K, V]]:
        """Drop all other records, and return the branches by name.

        Shape: KStream[K, V] -> nothing; store: no; repartition: no.

        Example:
            >>> from kstreamnb import StreamsBuilder
            >>> split = StreamsBuilder().stream("orders").split(name="by-size-")
            >>> list(split.branch(lambda key, pieces: pieces > 9, name="large").no_default_branch())
            ['by-size-large']

        Source: Kafka Streams `BranchedKStream#noDefaultBranch`; differences: none.
        """
        return self.branches

    def _add(self, predicate: RecordPredicate[K, V] | None, branched: Branched, index: int) -> None:
        suffix = str(index) if branched.name is None else branched.name
        stream: KStream[K, V] = self.declare("stream", "branch", emit_branch, predicate=predicate, suffix=suffix)
        if branched.consumer is not None:
            branched.consumer(stream)
            return
        result = stream if branched.function is None else branched.function(stream)
        if result is not None:
            self.branches[self.prefix + suffix] = result
