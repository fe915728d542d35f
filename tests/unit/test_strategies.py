"""Laws of a team's own: samples similar to an example, and the smallest one that breaks a law."""

from __future__ import annotations

import numpy
import pytest
from hypothesis import given, settings

import kstreamnb as ks
from kstreamnb.errors import ConfigError

EXAMPLE = ks.Sample.from_records(
    [
        ("payments", 0, 0, 1000, "ann", {"amount": 5, "note": "shoes"}),
        ("payments", 0, 1, 4000, "bob", {"amount": 900}),
        ("other", 0, 0, 0, "ann", 1),
    ]
)


def alerts(least: int) -> ks.Topology:
    """Alert from the ``least``-th large payment of a person on."""
    builder = ks.StreamsBuilder("alerts")
    large = builder.stream("payments").filter(lambda who, payment: payment["amount"] > 100)
    counts = large.group_by_key().count(store="large").to_stream()
    counts.filter(lambda who, count: count >= least).to("alerts")
    return builder.build()


def no_alert_without_three_payments(run: ks.Replay) -> bool:
    """The law: an alert comes after three payments of the same person."""
    steps = [step.record for step in run.steps if step.record is not None and step.record.topic == "payments"]
    return all(sum(record.key == alert.key for record in steps) >= 3 for alert in run.output("alerts"))


@settings(max_examples=50, deadline=None, derandomize=True)
@given(sample=ks.testing.samples(alerts(3), EXAMPLE))
def test_generated_records_look_like_the_example(sample: ks.Sample) -> None:
    """Input topics, known keys, the example's fields and types, no negative times."""
    for record in sample:
        assert record.topic == "payments"
        assert record.key in ("ann", "bob")
        assert set(record.value) <= {"amount", "note"}
        assert type(record.value["amount"]) is int
        assert 1000 <= record.timestamp <= 5500


def test_a_law_that_holds_has_no_counterexample() -> None:
    """Three large payments trigger the alert of three payments."""
    assert ks.testing.counterexample(alerts(3), EXAMPLE, no_alert_without_three_payments, examples=60) is None


def test_the_smallest_sample_that_breaks_a_law_is_found() -> None:
    """Two payments suffice for the wrong topology; the table and the replay show them."""
    broken = ks.testing.counterexample(alerts(2), EXAMPLE, no_alert_without_three_payments)
    assert broken is not None
    assert len(broken.sample) == 2
    assert len({record.key for record in broken.sample}) == 1
    assert all(record.value["amount"] > 100 for record in broken.sample)
    assert broken.replay is not None
    assert len(broken.replay.output("alerts")) == 1
    assert str(broken).startswith("the law is broken by 2 records: it is false")


@pytest.mark.parametrize("seen", [(0.1, 2.7), (1e300, 2e300), (1e308, -1e308), (float("nan"), 1.5), (3, 2**70)])
def test_any_numbers_may_be_in_the_example(seen: tuple[float, ...]) -> None:
    """Generated numbers are finite, also if those of the example have no short form, are very large, or are not."""
    rows = [("payments", 0, at, at, "ann", {"price": price}) for at, price in enumerate(seen)]
    builder = ks.StreamsBuilder("prices")
    builder.stream("payments").map_values(str).to("prices")

    @settings(max_examples=50, deadline=None, derandomize=True)
    @given(sample=ks.testing.samples(builder.build(), ks.Sample.from_records(rows)))
    def run(sample: ks.Sample) -> None:
        for record in sample:
            assert abs(record.value["price"]) < float("inf") or record.value["price"] != record.value["price"]

    run()


def test_a_law_may_return_a_truth_value_of_numpy() -> None:
    """A comparison of columns is not Python's own False."""
    broken = ks.testing.counterexample(alerts(2), EXAMPLE, lambda run: numpy.bool_(False), examples=5)
    assert broken is not None
    assert broken.error is None


def test_the_same_search_finds_the_same_sample() -> None:
    """Runs are deterministic and write no database."""
    found = [ks.testing.counterexample(alerts(2), EXAMPLE, no_alert_without_three_payments) for _ in range(2)]
    assert found[0] is not None
    assert found[1] is not None
    assert found[0].sample == found[1].sample


def test_an_error_of_the_run_breaks_the_law() -> None:
    """The example has a record without the field, so it is found; the error carries the replay up to it."""
    builder = ks.StreamsBuilder("notes")
    builder.stream("payments").map_values(lambda payment: payment["note"].upper()).to("notes")
    broken = ks.testing.counterexample(builder.build(), EXAMPLE, lambda run: True)
    assert broken is not None
    assert len(broken.sample) == 1
    assert "ProcessingError" in broken.title
    assert broken.replay is not None


def test_a_search_without_records_or_examples_is_refused() -> None:
    """In words of the kit, not of Hypothesis."""
    with pytest.raises(ConfigError, match="records must be at least 1, got 0"):
        ks.testing.counterexample(alerts(2), EXAMPLE, bool, records=0)
    with pytest.raises(ConfigError, match="examples must be at least 1, got 0"):
        ks.testing.counterexample(alerts(2), EXAMPLE, bool, examples=0)


def test_an_example_of_other_topics_is_refused() -> None:
    """The error names the required topics."""
    with pytest.raises(ConfigError, match="no record that the topology reads") as raised:
        ks.testing.samples(alerts(3), EXAMPLE.of_topic("other"))
    assert raised.value.hint == "add records of payments"
