"""Serdes with which the output of a deployment is read."""

from __future__ import annotations

import kstreamnb as ks
from kstreamnb.runtime.context.config import Config
from kstreamnb.spark.planning.output_topics import writer_serdes
from kstreamnb.spark.planning.placement import plan_application

CONFIG = {"errors.dead.letter.queue.topic.name": "dead", "default.value.serde": "json"}


def test_dead_letters_keep_the_default_serdes_if_a_sink_chooses_its_topic() -> None:
    """They were read with the serde of that sink, so a batch with a dead letter failed in a sink of Python."""
    builder = ks.StreamsBuilder("letters")
    builder.stream("in").to(lambda key, value, record: f"out-{key}", value_serde="long")
    topology, config = builder.build(), Config.of(CONFIG)
    application = plan_application(topology, config, {"in": 1}, direct=True, default_partitions=1, split=None)
    driver = ks.TopologyTestDriver(topology, config)
    for topic, name in {"out-a": "long", "dead": "json", "letters-counts-changelog": "json"}.items():
        value_serde = writer_serdes(application, topic)[1]
        assert value_serde.name == name
        assert value_serde == (driver.router.output_serdes(topic) or (None, config.default_value_serde))[1]


def test_a_topic_of_sinks_with_different_serdes_is_read_with_those_of_the_first() -> None:
    """The driver gives such records as bytes, a deployment has to choose."""
    builder = ks.StreamsBuilder("two")
    numbers = builder.stream("in", value_serde="long")
    numbers.to("same", value_serde="long")
    numbers.map_values(str).to("same", value_serde="string")
    application = plan_application(builder.build(), Config(), {"in": 1}, direct=True, default_partitions=1, split=None)
    assert "long" == writer_serdes(application, "same")[1].name
