"""The restart policy: one restart for each failure without progress, as in the drivers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from kstreamnb.errors import EngineError, FencedError, KStreamError, ProcessingError
from kstreamnb.spark.operations.restart_policy import RestartPolicy
from kstreamnb.spark.query.lifecycle import Actor, State
from tests.unit.spark.query.streams import launch, query_without_spark


def at_record(offset: int) -> ProcessingError:
    """A failure at a record."""
    return ProcessingError("broken", node="map", coordinates=("in", 0, offset, 5))


def test_a_failure_is_restarted_once_unless_a_batch_was_finished(tmp_path: Path) -> None:
    """At a record, in a punctuator, which has no record, and in the engine: the second consecutive one ends the
    query.
    """
    failures: list[KStreamError] = [at_record(7), ProcessingError("tick", node="ticker"), EngineError("sink")]
    for failure in failures:
        query = query_without_spark(tmp_path)
        policy = RestartPolicy(query, "replace_thread")
        assert policy.restarts_after(failure)
        assert not policy.restarts_after(failure)
        assert [note for note in failure.__notes__ if "every replacement thread fails in the same way" in note]
        query.control.action.last = replace(query.control.action.last, number=0)
        assert policy.restarts_after(failure), "a batch was finished since"


def test_another_failure_is_another_reason_to_restart(tmp_path: Path) -> None:
    """Another record, another node, another kind."""
    policy = RestartPolicy(query_without_spark(tmp_path), "replace_thread")
    others: list[KStreamError] = [at_record(7), at_record(8), ProcessingError("tick", node="ticker"), EngineError("x")]
    assert [True] * 4 == [policy.restarts_after(failure) for failure in others]


def test_the_handler_and_final_errors_forbid_a_restart(tmp_path: Path) -> None:
    """The handler is not asked about non-restartable errors."""
    asked: list[BaseException] = []

    def handler(error: BaseException) -> str:
        asked.append(error)
        return "shutdown_client"

    policy = RestartPolicy(query_without_spark(tmp_path), handler)
    assert not policy.restarts_after(at_record(1))
    assert not policy.restarts_after(FencedError("a newer deployment has taken over"))
    assert 1 == len(asked)


def test_the_log_says_why_a_failed_query_starts_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The start that follows would otherwise have no reason."""
    query = query_without_spark(tmp_path)
    launch(query, None)
    query.control.action.note_failure(at_record(1), Actor.STREAM)
    RestartPolicy(query, "replace_thread")(lambda: True)
    assert "again: starts again (reason broken)" in caplog.messages


def test_a_query_that_the_user_has_stopped_is_left_alone(tmp_path: Path) -> None:
    """A failure, then a stop: the policy asks its handler at most once and starts nothing."""
    query = query_without_spark(tmp_path)
    launch(query, None)
    query.control.action.note_failure(at_record(1), Actor.STREAM)
    query.stop()
    RestartPolicy(query, "replace_thread")(lambda: True)
    assert State.ABANDONED is query.control.lifecycle.state
    assert "failed" == query.status(lag=False).state


def test_a_handler_that_fails_is_told_with_the_error_it_was_asked_about(tmp_path: Path) -> None:
    """Nobody waits for its caller: the query shows what it failed of, and what the handler did."""

    def handler(error: BaseException) -> str:
        raise ZeroDivisionError("division by zero")

    error = at_record(1)
    assert not RestartPolicy(query_without_spark(tmp_path), handler).restarts_after(error)
    assert error.__notes__[-2] == "Hint: fix the uncaught handler; it failed: division by zero"
