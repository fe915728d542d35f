"""The states of a query: every pair of state and event, and who may cause what."""

from __future__ import annotations

from itertools import product

import pytest

from kstreamnb.errors import EngineError
from kstreamnb.spark.query.lifecycle import ACTIVE, TRANSITIONS, Actor, Lifecycle, LifecycleEvent, State

PATHS: dict[State, list[tuple[LifecycleEvent, Actor]]] = {
    State.CREATED: [],
    State.STARTING: [(LifecycleEvent.START, Actor.USER)],
    State.LAUNCHED: [(LifecycleEvent.START, Actor.USER), (LifecycleEvent.LAUNCH, Actor.QUERY)],
    State.RUNNING: [
        (LifecycleEvent.START, Actor.USER),
        (LifecycleEvent.LAUNCH, Actor.QUERY),
        (LifecycleEvent.READY, Actor.STREAM),
    ],
    State.STOPPING: [(LifecycleEvent.START, Actor.USER), (LifecycleEvent.STOP, Actor.USER)],
    State.STOPPED: [(LifecycleEvent.STOP, Actor.USER)],
    State.FAILED: [(LifecycleEvent.START, Actor.USER), (LifecycleEvent.FAIL, Actor.QUERY)],
    State.ABANDONED: [
        (LifecycleEvent.START, Actor.USER),
        (LifecycleEvent.FAIL, Actor.QUERY),
        (LifecycleEvent.STOP, Actor.USER),
    ],
}


def lifecycle_in(state: State) -> Lifecycle:
    """A lifecycle that went to a state as a query does."""
    lifecycle = Lifecycle()
    for event, actor in PATHS[state]:
        error = EngineError("broken") if event is LifecycleEvent.FAIL else None
        assert lifecycle.apply(event, actor, error)
    assert state is lifecycle.state
    return lifecycle


@pytest.mark.parametrize(("state", "event", "actor"), list(product(State, LifecycleEvent, Actor)), ids=str)
def test_the_table_alone_decides(state: State, event: LifecycleEvent, actor: Actor) -> None:
    """What the table does not list changes nothing and is answered with False."""
    lifecycle = lifecycle_in(state)
    target, actors = TRANSITIONS.get((state, event), (state, frozenset()))
    allowed = lifecycle.apply(event, actor, EngineError("again") if event is LifecycleEvent.FAIL else None)
    assert (actor in actors, target if actor in actors else state) == (allowed, lifecycle.state)


def test_only_the_user_starts_what_the_user_has_stopped() -> None:
    """Neither the restart policy nor a recovery comes back after `Query.stop`, whatever the state was."""
    for state in (State.CREATED, State.LAUNCHED, State.RUNNING, State.STARTING, State.FAILED):
        lifecycle = lifecycle_in(state)
        assert lifecycle.apply(LifecycleEvent.STOP, Actor.USER)
        for actor in Actor:
            allowed = TRANSITIONS.get((lifecycle.state, LifecycleEvent.START), (None, frozenset()))[1]
            assert (actor in allowed) == (actor is Actor.USER)


def test_the_first_error_since_a_start_counts() -> None:
    """It is shown while the query has failed, also after a stop; a start clears it."""
    lifecycle = lifecycle_in(State.RUNNING)
    first = EngineError("first")
    assert lifecycle.apply(LifecycleEvent.FAIL, Actor.STREAM, first)
    assert not lifecycle.apply(LifecycleEvent.FAIL, Actor.COMPANION, EngineError("second"))
    assert lifecycle.apply(LifecycleEvent.STOP, Actor.USER)
    assert (first, "failed") == (lifecycle.error, lifecycle.state.shown)
    assert lifecycle.apply(LifecycleEvent.START, Actor.USER)
    assert lifecycle.error is None


def test_a_failed_stop_is_no_success() -> None:
    """A batch that fails while the query stops leaves it failed, and nothing starts it again but the user."""
    lifecycle = lifecycle_in(State.STOPPING)
    assert lifecycle.apply(LifecycleEvent.FAIL, Actor.STREAM, EngineError("sink"))
    assert not lifecycle.apply(LifecycleEvent.HALT, Actor.QUERY)
    assert State.ABANDONED is lifecycle.state


def test_every_state_can_be_reached_and_every_active_one_can_be_stopped() -> None:
    """No state is a trap."""
    targets = {target for target, _ in TRANSITIONS.values()}
    assert set(State) == targets | {State.CREATED}
    assert ACTIVE - {State.STOPPING} == {
        state
        for state, event in TRANSITIONS
        if event is LifecycleEvent.STOP and TRANSITIONS[state, event][0] is State.STOPPING
    }
    assert all((state, LifecycleEvent.START) in TRANSITIONS for state in set(State) - {State.STARTING})
    assert not lifecycle_in(State.RUNNING).await_end(0.0)
    assert lifecycle_in(State.STOPPED).await_end(0.0)
