"""`BranchedKStream`: a stream that is being split into branches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic

from kstreamnb.core.signatures import RECORD, taking
from kstreamnb.dsl.declarations import Declaration, DeclarationLog, Handle
from kstreamnb.dsl.flows import StreamFlow, UserFunction
from kstreamnb.dsl.keywords import combined
from kstreamnb.dsl.options import Branched
from kstreamnb.dsl.type_vars import K, Predicate, V
from kstreamnb.errors import TopologyError
from kstreamnb.logical.builder import GraphBuilder
from kstreamnb.logical.nodes import Operation
from kstreamnb.operators import stateless

if TYPE_CHECKING:  # streams and tables are made of these classes
    from kstreamnb.dsl.kstream import KStream


class BranchedKStream(Handle, Generic[K, V], kind="split"):
    """A stream that is being split: add branches, then end with `default_branch` or `no_default_branch`.

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
        self.branches: dict[str, KStream[K, V]] = {}
        self._count = 0

    def branch(
        self, predicate: Predicate[K, V], branched: Branched | None = None, *, name: str | None = None
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

    def _add(self, predicate: Predicate[K, V] | None, branched: Branched, index: int) -> None:
        suffix = str(index) if branched.name is None else branched.name
        stream: KStream[K, V] = self.declare("stream", "branch", _branch, predicate=predicate, suffix=suffix)
        if branched.consumer is not None:
            branched.consumer(stream)
            return
        result = stream if branched.function is None else branched.function(stream)
        if result is not None:
            self.branches[self.prefix + suffix] = result


# --- in the graph -----------------------------------------------------------------------------------------------------
def _branch(graph: GraphBuilder, above: StreamFlow, predicate: UserFunction | None, suffix: str) -> StreamFlow:
    split = graph.nodes[above.node]
    assert isinstance(split, Operation)
    assert isinstance(split.operator, stateless.Branch)
    name = split.name + suffix
    predicates, (*children, default) = split.operator.predicates, split.operator.children
    if predicate is None:
        if default is not None:
            raise TopologyError(f'split "{split.name}" has two default branches')
        default = name
    else:
        predicates, children = (*predicates, predicate), [*children, name]
    graph.change(split, operator=stateless.Branch(predicates, (*children, default)))
    graph.new_name(name)
    return above.then(graph.step(name, stateless.PassThrough(), split.id))
