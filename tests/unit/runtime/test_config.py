"""Settings under Python's and Kafka's names."""

from __future__ import annotations

import re

import pytest

from kstreamnb.core.serdes import Serdes
from kstreamnb.errors import ConfigError
from kstreamnb.runtime.context.config import Config


def test_dotted_and_python_names_mean_the_same() -> None:
    """Kafka's names, Java's class names and texts become values."""
    config = Config.of(
        {
            "application.id": "shop",
            "default.value.serde": "org.apache.kafka.common.serialization.Serdes$LongSerde",
            "statestore.cache.max.bytes": "100",
            "processing.exception.handler": "org.apache.kafka.streams.errors.LogAndContinueProcessingExceptionHandler",
            "producer.linger.ms": 5,
        }
    )
    assert config == Config(
        application_id="shop",
        default_value_serde=Serdes.long(),
        cache_max_bytes=100,
        processing_handler="continue",
        others={"producer.linger.ms": 5},
    )
    assert {"linger.ms": 5} == config.client_settings("producer")
    assert "shop" == config.dotted()["application.id"]


@pytest.mark.parametrize("old_first", [True, False])
def test_the_new_name_of_a_setting_has_the_last_word(old_first: bool) -> None:
    """As in Kafka Streams, wherever the old one is given."""
    settings = {
        "cache.max.bytes.buffering": 1,
        "default.production.exception.handler": "fail",
        "statestore.cache.max.bytes": 2,
        "production.exception.handler": "continue",
    }
    config = Config.of(settings if old_first else dict(reversed(settings.items())))
    assert (2, "continue") == (config.cache_max_bytes, config.production_handler)


def test_an_unknown_name_is_refused_with_a_near_one() -> None:
    """A typing error is reported with a suggestion."""
    with pytest.raises(ConfigError) as error:
        Config.of({"aplication_id": "shop"})
    assert 'Hint: did you mean "application_id"?' in error.value.__notes__


def test_an_application_id_must_fit_into_a_topic_name() -> None:
    """S4-11: a look-alike hyphen is named and replaced in the hint."""
    with pytest.raises(ConfigError) as error:
        Config(application_id="fraud\u2011detector")
    assert any("U+2011" in note for note in error.value.__notes__)
    assert any('"fraud-detector"' in note for note in error.value.__notes__)


@pytest.mark.parametrize(
    ("topic", "detail", "hint"),
    [("", "it is empty", "give a name, or None"), ("a b", 'it contains " " (U+0020)', '"a-b" would do')],
)
def test_a_dead_letter_topic_needs_the_name_of_a_topic(topic: str, detail: str, hint: str) -> None:
    """It would fail at the first record that is refused, maybe after weeks."""
    with pytest.raises(ConfigError, match=f'dead-letter topic "{topic}" cannot be the name of a topic') as error:
        Config.of({"errors.dead.letter.queue.topic.name": topic})
    assert (detail, hint) == (error.value.detail, error.value.hint)


@pytest.mark.parametrize(
    ("topic", "fact"), [("..", '".." is not allowed'), ("x" * 250, "has 250 characters, more than 249")]
)
def test_a_dead_letter_topic_obeys_every_rule_of_kafka(topic: str, fact: str) -> None:
    with pytest.raises(ConfigError, match=f"dead-letter topic {re.escape(fact)}"):
        Config(dead_letter_topic=topic)


@pytest.mark.parametrize(
    "settings", [{"cache_max_bytes": "many"}, {"commit_interval_ms": -1}, {"processing_handler": "pray"}]
)
def test_values_that_make_no_sense_are_refused(settings: dict[str, object]) -> None:
    """Numbers have to be whole and not negative, handlers known."""
    with pytest.raises(ConfigError):
        Config.of(settings)


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [("num.standby.replicas", "-1", "x"), ("poll.ms", 50, "1.5"), ("enable.metrics.push", "False", "x")],
)
def test_numbers_and_flags_are_checked_even_if_they_have_no_effect(name: str, good: object, bad: object) -> None:
    assert good == Config.of({name: good}).others[name]
    with pytest.raises(ConfigError, match=re.escape(name)):
        Config.of({name: bad})


@pytest.mark.parametrize("word", ["exactly_once", "exactly_once_beta"])
def test_guarantees_that_kafka_has_given_up_are_refused(word: str) -> None:
    """S4-12: the error lists the two valid values."""
    with pytest.raises(ConfigError, match=f'processing guarantee "{word}" does not exist') as error:
        Config.of({"processing.guarantee": word})
    assert 'did you mean "exactly_once_v2"?' == error.value.hint
    assert Config.of({"processing.guarantee": "at_least_once"}).exactly_once is False


@pytest.mark.parametrize("guarantee", ["exactly_once_v2", "at_least_once"])
def test_more_than_five_requests_in_flight_could_put_records_out_of_order(guarantee: str) -> None:
    """S3-27: exactly once refuses it with Kafka's text; otherwise it is at the user's own risk."""
    settings = {"processing.guarantee": guarantee, "producer.max.in.flight.requests.per.connection": 6}
    if guarantee == "at_least_once":
        assert {"max.in.flight.requests.per.connection": 6} == Config.of(settings).client_settings("producer")
        return
    with pytest.raises(ConfigError) as error:
        Config.of(settings)
    assert any("Can't exceed 5 when exactly-once processing is enabled" in note for note in error.value.__notes__)


@pytest.mark.parametrize("value", [1.5, float("inf"), float("nan"), "1.5", None])
def test_a_setting_that_is_no_whole_number_is_not_rounded(value: object) -> None:
    """A number with a fraction is refused, one without is taken."""
    with pytest.raises(ConfigError, match="must be an integer"):
        Config(max_poll_records=value)  # type: ignore[arg-type]
    assert 2 == Config(max_poll_records=2.0).max_poll_records  # type: ignore[arg-type]
