"""Replaying declarations into a graph: each in order, with what its parents became, under Java's name counter."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from kstreamnb.dsl.declarations import Declaration, Handle
from kstreamnb.errors import KStreamError
from kstreamnb.graph.draft import Draft


@dataclass(frozen=True)
class Replay:
    """A draft, and what each declaration became in it."""

    draft: Draft
    flows: dict[Declaration, Any]


def replay(declarations: Iterable[Declaration], *, persistent: bool = True) -> Replay:
    """Write declarations, parents first, into a new draft."""
    draft = Draft(persistent=persistent)
    flows: dict[Declaration, Any] = {}
    for declaration in declarations:
        draft.origin, draft.word = declaration.origin, declaration.word
        parents = (flows[parent] for parent in declaration.parents)
        try:
            flows[declaration] = declaration.emit(draft, *parents, **declaration.arguments)
        except KStreamError as error:
            error.at(declaration.origin)
            raise
    return Replay(draft, flows)


def flow_of(handle: Handle) -> Any:
    """What a handle became when everything that was declared so far is replayed."""
    handle.ledger.check()
    return replay(handle.ledger.declarations(), persistent=handle.ledger.persistent).flows[handle.declaration]
