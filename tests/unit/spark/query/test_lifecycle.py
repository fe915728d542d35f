"""The states of a query: every pair of state and event, and which actor may cause what."""

from __future__ import annotations

from itertools import product

import pytest

from kstreamnb.errors import EngineError
from kstreamnb.spark.query.lifecycle import ACTIVE, TRANSITIONS, Actor, Lifecycle, State
from kstreamnb.spark.query.lifecycle import LifecycleEvent as Event

PATHS: dict[State, list[tuple[Event, Actor]]] = {
    State.CREATED: [],
    State.STARTING: [(Event.START, Actor.USER)],
    State.LAUNCHED: [(Event.START, Actor.USER), (Event.LAUNCH, Actor.QUERY)],
    State.RUNNING: [
        (Event.START, Actor.USER),
        (Event.LAUNCH, Actor.QUERY),
        (Event.READY, Actor.STREAM),
    ],
    State.STOPPING: [(Event.START, Actor.USER), (Event.STOP, Actor.USER)],
    State.STOPPED: [(Event.STOP, Actor.USER)],
    State.FAILED: [(Event.START, Actor.USER), (Event.FAIL, Actor.QUERY)],
    State.ABANDONED: [
        (Event.START, Actor.USER),
        (Event.FAIL, Actor.QUERY),
        (Event.STOP, Actor.USER),
    ],
}


def lifecycle_in(state: State) -> Lifecycle:
    """Return a lifecycle that reached a state as a query does."""
    lifecycle = Lifecycle()
    for event, actor in PATHS[state]:
        error = EngineError("broken") if event is Event.FAIL else None
        assert lifecycle.apply(event, actor, error)
    assert state is lifecycle.state
    return lifecycle


@pytest.mark.parametrize("state", State, ids=str)
def test_the_table_alone_decides(state: State) -> None:
    """Unlisted events change nothing and return None, others the state before."""
    expected, found = {}, {}
    for event, actor in product(Event, Actor):
        target, actors = TRANSITIONS.get((state, event), (state, frozenset()))
        expected[event, actor] = (actor in actors, target if actor in actors else state)
        lifecycle = lifecycle_in(state)
        allowed = lifecycle.apply(event, actor, EngineError("again") if event is Event.FAIL else None)
        found[event, actor] = (allowed is state, lifecycle.state)
    assert expected == found


def test_only_the_user_starts_what_the_user_has_stopped() -> None:
    """Neither the restart policy nor a recovery undoes `Query.stop`, in any state."""
    for state in (State.CREATED, State.LAUNCHED, State.RUNNING, State.STARTING, State.FAILED):
        lifecycle = lifecycle_in(state)
        assert lifecycle.apply(Event.STOP, Actor.USER)
        for actor in Actor:
            allowed = TRANSITIONS.get((lifecycle.state, Event.START), (None, frozenset()))[1]
            assert (actor in allowed) == (actor is Actor.USER)


def test_the_first_error_since_a_start_counts() -> None:
    """It is shown while the query has failed, also after a stop; a start clears it."""
    lifecycle = lifecycle_in(State.RUNNING)
    first = EngineError("first")
    assert lifecycle.apply(Event.FAIL, Actor.STREAM, first)
    assert not lifecycle.apply(Event.FAIL, Actor.COMPANION, EngineError("second"))
    assert lifecycle.apply(Event.STOP, Actor.USER)
    assert (first, "failed") == (lifecycle.error, lifecycle.state.shown)
    assert lifecycle.apply(Event.START, Actor.USER)
    assert lifecycle.error is None


def test_a_failed_stop_is_no_success() -> None:
    """A batch that fails while the query stops leaves it failed, and only the user restarts it."""
    lifecycle = lifecycle_in(State.STOPPING)
    assert lifecycle.apply(Event.FAIL, Actor.STREAM, EngineError("sink"))
    assert not lifecycle.apply(Event.HALT, Actor.QUERY)
    assert State.ABANDONED is lifecycle.state


def test_every_state_can_be_reached_and_every_active_one_can_be_stopped() -> None:
    """Every state has a way out."""
    targets = {target for target, _ in TRANSITIONS.values()}
    assert set(State) == targets | {State.CREATED}
    assert ACTIVE - {State.STOPPING} == {
        state for state, event in TRANSITIONS if event is Event.STOP and TRANSITIONS[state, event][0] is State.STOPPING
    }
    assert all((state, Event.START) in TRANSITIONS for state in set(State) - {State.STARTING})
