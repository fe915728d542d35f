"""Functions that raise other than an `Exception`, or an error without a text: node, record and line as for any
other.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from functools import partial
from typing import NoReturn

import pytest

import kstreamnb as ks


class Own(BaseException):
    """A user's error that derives from the base."""


class Mute(Exception):
    """An error whose text cannot be computed."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


def running(raised: type[BaseException], **config: str) -> ks.TopologyTestDriver:
    """A driver whose function raises something for the value 0."""

    def check(value: int) -> int:
        if not value:
            raise raised
        return value

    builder = ks.StreamsBuilder("checked")
    builder.stream("in").map_values(check, name="check").to("out")
    return ks.TopologyTestDriver(builder.build(), config)


@pytest.mark.parametrize("raised", [SystemExit, KeyboardInterrupt, GeneratorExit, Own, Mute])
@pytest.mark.parametrize("records", [2, 200], ids=["one by one", "in bulk"])
@pytest.mark.parametrize("config", [{}, {"processing_handler": "continue"}], ids=["fails", "handler"])
def test_whatever_a_function_raises_names_node_and_record(
    raised: type[BaseException], records: int, config: dict[str, str]
) -> None:
    """Handlers decide about Exceptions alone, as Kafka Streams' handlers do."""
    driver = running(raised, **config)
    sample = [ks.TopicRecord("in", 0, at, at, "k", int(at < records - 1)) for at in range(records)]
    if config and issubclass(raised, Exception):
        driver.pipe(sample)
        assert records - 1 == len(driver.create_output_topic("out").read_records())
        return
    with pytest.raises(ks.errors.ProcessingError) as caught:
        driver.pipe(sample)
    assert ("check", ("in", 0, records - 1, records - 1)) == (caught.value.node, caught.value.coordinates)
    assert isinstance(caught.value.__cause__, raised)
    assert "test_base_exceptions" in str(caught.value.origin)


def punctuated(raised: type[BaseException]) -> ks.TopologyTestDriver:
    """A driver with a punctuator that raises something."""

    class Ticker(ks.Processor[str, int, str, int]):
        def init(self, context: ks.ProcessorContext[str, int]) -> None:
            context.schedule("1s", ks.PunctuationType.WALL_CLOCK_TIME, self.tick)

        def tick(self, now_ms: int) -> None:
            raise raised

        def process(self, record: ks.Record[str, int]) -> None:
            pass

    builder = ks.StreamsBuilder("ticking")
    builder.stream("in").process(Ticker, name="ticker")
    return ks.TopologyTestDriver(builder.build())


@pytest.mark.parametrize("raised", [SystemExit, KeyboardInterrupt, Own, Mute])
def test_whatever_a_punctuator_raises_names_its_node(raised: type[BaseException]) -> None:
    """A punctuator belongs to no record."""
    with pytest.raises(ks.errors.ProcessingError) as caught:
        punctuated(raised).advance_wall_clock_time("1s")
    assert ("ticker", None) == (caught.value.node, caught.value.coordinates)
    assert isinstance(caught.value.__cause__, raised)


def interrupting(value: int) -> int:
    """Receive a signal, as from Ctrl-C, while the function runs."""
    signal.raise_signal(signal.SIGINT)
    return value


def raising(*_: object) -> NoReturn:
    """Handle a signal as pyspark does while it has a session."""
    raise KeyboardInterrupt


class Runner:
    """Handles a signal by a method, as asyncio does while it runs a coroutine."""

    def handle(self, *_: object, main_task: None) -> NoReturn:
        """Raise after the call of another function."""
        raising(main_task)


HANDLERS = {
    "Python's": signal.default_int_handler,
    "a function": raising,
    "a partial of a method": partial(Runner().handle, main_task=None),
}


@pytest.fixture(params=HANDLERS)
def handled(request: pytest.FixtureRequest) -> Iterator[None]:
    """A process that a shell started in the background ignores the signal of Ctrl-C; a notebook's kernel never does."""
    before = signal.signal(signal.SIGINT, HANDLERS[request.param])
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("handled")
@pytest.mark.parametrize("run", [interrupting], ids=["signal"])
def test_an_interrupt_by_the_user_stays_one(run: Callable[[int], int]) -> None:
    """It is not the function's error: an interrupted cell ends with KeyboardInterrupt."""
    builder = ks.StreamsBuilder("interrupted")
    builder.stream("in").map_values(run).to("out")
    driver = ks.TopologyTestDriver(builder.build())
    with pytest.raises(KeyboardInterrupt):
        driver.create_input_topic("in").pipe_input("k", 1, at=0)
