"""S0-39: every setting is honoured, translated, passed on or reported as not needed; none is ignored silently."""

from __future__ import annotations

from pathlib import Path

import pytest

import kstreamnb as ks
from kstreamnb.client_settings import for_librdkafka
from kstreamnb.runtime.context.config import _DOTTED, Config, streams_settings


def test_every_setting_of_kafka_streams_has_an_answer() -> None:
    """All 75 of version 4.3 and 8 internal ones; those that the kit knows by name are honoured or translated."""
    report = ks.config_report()
    assert len(report) == len(streams_settings()) == 83
    assert {each.answer for each in report} == {"honoured", "translated", "client", "not needed"}
    for each in report:
        assert each.words, each.name
        assert (each.name in _DOTTED) <= (each.answer in ("honoured", "translated")), each.name


def test_internal_settings_that_applications_set_are_answered() -> None:
    """A configuration of a Java application may have them, and they exist."""
    fix = "__enable.process.processValue.fix__"
    pause = "__emit.interval.ms.kstreams.windowed.aggregation__"
    report = ks.config_report({fix: "true", pause: "0"})
    assert (report[fix].answer, report[pause].answer) == ("translated", "not needed")
    assert report[fix].words.startswith("StreamsBuilder(process_changes_records=True)")
    assert "without effect" in ks.config_report({"upgrade.from": "3.4"})["upgrade.from"].words
    assert Config.of({"__processing.threads.enabled__": "true", "internal.task.assignor.class": "com.shop.Assignor"})


def test_another_prefix_of_internal_topics_is_refused_and_reported() -> None:
    """Kafka Streams has such a setting. Ignored, it would make the application look for other changelogs."""
    name = "__internal.override.topic.prefix__"
    with pytest.raises(ks.errors.ConfigError, match=f'setting "{name}" is not supported') as error:
        Config.of({name: "shop"})
    assert "internal topics begin with application.id" in str(error.value.hint)
    assert (error.value.hint, "not supported") == ks.config_report({name: "shop"})[name][-1:-3:-1]


def test_the_settings_of_the_fraud_pipeline_are_all_honoured() -> None:
    """S4-23: application id, brokers, guarantee and serdes as a Java application sets them."""
    serde = "org.apache.kafka.common.serialization.Serdes$StringSerde"
    report = ks.config_report(
        {
            "application.id": "fraud-detector",
            "bootstrap.servers": "kafka-broker:9092",
            "processing.guarantee": "exactly_once_v2",
            "default.key.serde": serde,
            "default.value.serde": serde,
        }
    )
    assert {each.answer for each in report} == {"honoured"}


@pytest.mark.parametrize(("interval", "warns"), [(100, False), (500, False), (1000, True), (10, True)])
def test_an_unusual_commit_interval_is_pointed_out(interval: int, warns: bool) -> None:
    """S4-37: the report shows value and default, and the usual choice."""
    answer = ks.config_report({"commit.interval.ms": interval})["commit.interval.ms"]
    assert answer.value == str(interval)
    assert answer.default == "30000"
    assert ("are common" in answer.words) == warns


def test_settings_of_clients_are_handed_on_and_their_values_not_shown() -> None:
    """A password never reaches a display."""
    report = ks.config_report(
        {"security.protocol": "SASL_SSL", "sasl.password": "s3cret", "consumer.fetch.min.bytes": 1}
    )
    assert {each.answer for each in report} == {"client"}
    assert "s3cret" not in str(report)
    assert "SASL_SSL" not in str(report)


def test_all_classes_of_a_java_application_that_the_kit_lacks_are_reported_at_once() -> None:
    """With what to use instead; a setting beside them keeps its answer, and a misspelled one is still an error."""
    serde, extractor, handler = "com.shop.OrderSerde", "com.shop.PaidAt", "com.shop.Skip$Late"
    settings = {
        "default.key.serde": serde,
        "default.value.serde": "io.confluent.kafka.streams.serdes.avro.SpecificAvroSerde",
        "default.timestamp.extractor": extractor,
        "processing.exception.handler": handler,
        "num.stream.threads": 4,
    }
    report = ks.config_report(settings)
    assert "5 settings: 4 not supported, 1 translated" == report.title
    for name, words in (
        ("default.key.serde", "ks.Serdes.serde_from(serialize, deserialize)"),
        ("default.value.serde", "ks.kafka.SchemaRegistry("),
        ("default.timestamp.extractor", "pass your own extractor as a function"),
        ("processing.exception.handler", "a function of (context, error)"),
    ):
        assert (settings[name], "not supported") == (report[name].value, report[name].answer)
        assert words in report[name].words
    with pytest.raises(ks.errors.ConfigError, match=r'"default\.kay\.serde" does not exist'):
        ks.config_report({**settings, "default.kay.serde": serde})
    with pytest.raises(ks.errors.ConfigError, match="must be an integer"):
        ks.config_report({**settings, "num.stream.threads": "four"})


SLIPS = [
    ("num.stream.thread", "num.stream.threads"),
    ("commit.intervall.ms", "commit.interval.ms"),
    ("fetch.min.byte", "fetch.min.bytes"),
    ("security.protocoll", "security.protocol"),
    ("queued.max.message.kbytes", "queued.max.messages.kbytes"),
]


@pytest.mark.parametrize(("slip", "name"), SLIPS)
def test_an_unknown_setting_is_refused_with_the_nearest(slip: str, name: str, tmp_path: Path) -> None:
    """In a report, a config, a file and a driver: no dotted name is ignored silently."""
    file = tmp_path / "application.yml"
    file.write_text(f"{slip}: 100\n")
    topology = ks.Topology().add_source("in", "orders")
    for path in (
        lambda: ks.config_report({slip: 100}),
        lambda: Config.of({slip: 100}),
        lambda: ks.read_config(file),
        lambda: ks.TopologyTestDriver(topology, {slip: 100}),
        lambda: ks.replay(topology, [], config={slip: 100}),
        lambda: ks.simulation.ClusterDriver(topology, {slip: 100}),
    ):
        with pytest.raises(ks.errors.ConfigError, match=f'setting "{slip}" does not exist') as error:
            path()
        assert f'Hint: did you mean "{name}"?' in error.value.__notes__


@pytest.mark.parametrize(
    "prefix", ["producer.", "consumer.", "main.consumer.", "restore.consumer.", "admin.", "topic."]
)
def test_settings_with_a_prefix_are_not_checked(prefix: str) -> None:
    """A client unknown to the kit may have any setting."""
    assert {f"{prefix}made.up": 1} == Config.of({f"{prefix}made.up": 1}).others
    assert "client" == ks.config_report({f"{prefix}made.up": 1})[f"{prefix}made.up"].answer


@pytest.mark.parametrize("name", ["linger.ms", "sasl.mechanisms", "sasl.mechanism", "ssl.keystore.location"])
def test_settings_of_java_s_and_librdkafka_s_clients_are_known(name: str) -> None:
    """The two spell some of them differently."""
    assert "client" == ks.config_report({name: "x"})[name].answer


@pytest.mark.parametrize(
    ("name", "default", "answer", "word"),
    [
        ("consumer.session.timeout.ms", "45000", "not needed", "no members"),  # S2-24, C-06
        ("heartbeat.interval.ms", "3000", "not needed", "in the background"),
        ("max.poll.interval.ms", "300000", "not needed", "no members"),
        ("producer.acks", "all", "client", "no acknowledged record"),  # S3-08, C-09
        ("enable.idempotence", "true", "client", "neither duplicate nor reorder"),  # S3-27, C-10
        ("rocksdb.compaction.style", "", "unknown", "spark.sql.streaming.stateStore.rocksdb"),  # S4-40, C-19
        ("state.cleanup.delay.ms", "600000", "not needed", "checkpoint"),  # S4-47, C-22
        ("incremental.restore", "", "unknown", "leave it out"),
        ("receive.buffer.bytes", "32768", "client", "client"),  # S4-49, C-23
        ("socket.receive.buffer.bytes", "0", "client", "either name"),
        ("topic.min.cleanable.dirty.ratio", "0.5", "not needed", "a higher one later"),  # S4-50, C-24
        ("topic.retention.ms", "604800000", "not needed", "without effect"),
    ],
)
def test_what_texts_say_wrong_is_put_right(name: str, default: str, answer: str, word: str) -> None:
    """S2-24, S3-08, S3-27, S4-40, S4-47, S4-49, S4-50: the real default, the real name, and the direction."""
    found = ks.config_report({name: "1"})[name]
    assert (default, answer) == (found.default, found.answer)
    assert word in found.words


LOGIN = "org.apache.kafka.common.security.{} required {};"


@pytest.mark.parametrize(
    ("settings", "name", "answer", "word"),
    [
        ({"interceptor.classes": "shop.Audit"}, "interceptor.classes", "not supported", "an operator"),
        ({"main.consumer.interceptor.classes": "shop.Audit"}, "main.consumer.interceptor.classes", "not supported", ""),
        ({"ssl.keystore.location": "a.jks"}, "ssl.keystore.location", "not supported", "keytool"),
        (
            {"ssl.keystore.location": "a", "ssl.keystore.type": "JKS"},
            "ssl.keystore.location",
            "not supported",
            "PKCS12",
        ),
        ({"ssl.keystore.location": "a", "ssl.keystore.type": "PEM"}, "ssl.keystore.location", "client", ""),
        ({"ssl.truststore.location": "a.p12"}, "ssl.truststore.location", "not supported", "PEM"),
        (
            {"ssl.truststore.location": "a", "ssl.truststore.type": "PEM"},
            "ssl.truststore.location",
            "translated",
            "ssl.ca",
        ),
        (
            {"sasl.jaas.config": LOGIN.format("oauthbearer.X", "a=1")},
            "sasl.jaas.config",
            "not supported",
            "sasl.username",
        ),
        (
            {
                "sasl.jaas.config": LOGIN.format(
                    "oauthbearer.OAuthBearerLoginModule", 'unsecuredLoginStringClaim_sub="a"'
                )
            },
            "sasl.jaas.config",
            "not supported",
            "sasl.oauthbearer",
        ),
        (
            {"sasl.login.callback.handler.class": "shop.Tokens"},
            "sasl.login.callback.handler.class",
            "not supported",
            "oidc",
        ),
        (
            {"sasl.login.callback.handler.class": "org.apache.kafka.OAuthBearerLoginCallbackHandler"},
            "sasl.login.callback.handler.class",
            "translated",
            "oidc",
        ),
        (
            {"sasl.jaas.config": LOGIN.format("plain.PlainLoginModule", 'username="me"')},
            "sasl.jaas.config",
            "not supported",
            "",
        ),
        ({"producer.max.request.size": 5}, "producer.max.request.size", "translated", "message.max.bytes"),
        ({"value.serializer": "shop.Values"}, "value.serializer", "not needed", "serdes"),
    ],
)
def test_settings_of_java_clients_alone_are_translated_or_said_to_be_unsupported(
    settings: dict[str, object], name: str, answer: str, word: str
) -> None:
    """The same combinations are refused when a client connects."""
    found = ks.config_report(settings)[name]
    assert answer == found.answer
    assert word in found.words
    plain = {name.removeprefix("main.consumer."): value for name, value in settings.items()}
    if answer == "not supported":
        with pytest.raises(ks.errors.ConfigError, match=r'setting ".*" of Java\'s clients is not supported') as caught:
            for_librdkafka(plain)
        assert found.words == caught.value.hint
    else:
        for_librdkafka(plain)


@pytest.mark.parametrize("module", ["plain.PlainLoginModule", "scram.ScramLoginModule"])
@pytest.mark.parametrize(
    ("options", "password"),
    [
        ('username="me" password="pass;word=1"', "pass;word=1"),
        ('\n  username="me"\n  password="say \\"a\\\\b\\""', 'say "a\\b"'),
        ("username=me password=secret", "secret"),
    ],
)
def test_a_login_of_java_becomes_name_and_password(module: str, options: str, password: str) -> None:
    """Its quotes and escapes are those of JAAS."""
    assert {"sasl.username": "me", "sasl.password": password} == for_librdkafka(
        {"sasl.jaas.config": LOGIN.format(module, options)}
    )


def test_a_keystore_in_pem_becomes_key_and_certificate() -> None:
    """Java has both in one file; librdkafka takes the same file for each."""
    store = {"ssl.keystore.location": "me.pem", "ssl.keystore.type": "pem", "ssl.key.password": "hush"}
    trust = {
        "ssl.truststore.location": "ca.pem",
        "ssl.truststore.type": "PEM",
        "ssl.endpoint.identification.algorithm": "",
    }
    assert {
        "ssl.key.location": "me.pem",
        "ssl.certificate.location": "me.pem",
        "ssl.key.password": "hush",
        "ssl.ca.location": "ca.pem",
        "ssl.endpoint.identification.algorithm": "none",
    } == for_librdkafka({**store, **trust})


@pytest.mark.parametrize("name", ["rocksdb.compaction.style", "incremental.restore"])
def test_a_setting_that_kafka_streams_lacks_is_refused_with_what_to_do_instead(name: str) -> None:
    """S4-40: Kafka Streams has no setting with the literal key; the hint is that of the report, not a similar name."""
    with pytest.raises(ks.errors.ConfigError, match=f'setting "{name}" does not exist') as raised:
        ks.Config.of({name: "level"})
    assert raised.value.detail == "Kafka has no such setting"
    assert raised.value.hint == ks.config_report({name: "level"})[name].words


@pytest.mark.parametrize(("guarantee", "interval_ms"), [("exactly_once_v2", 100), ("at_least_once", 30_000)])
def test_the_interval_that_holds_follows_the_guarantee(guarantee: str, interval_ms: int) -> None:
    """S4-37: without a value Kafka's default, of the guarantee; the trigger of a deployment takes it."""
    config = ks.Config.of({"processing.guarantee": guarantee})
    assert config.commit_interval_ms == interval_ms
    answer = ks.config_report(config)["commit.interval.ms"]
    assert f"{interval_ms} ms here" in answer.words
    assert "deploy() takes it as the trigger" in answer.words


def test_more_than_five_requests_in_flight_are_refused_where_order_is_promised() -> None:
    """S3-27, C-10: as Kafka Streams does, and with its text."""
    with pytest.raises(ks.errors.ConfigError, match="could change the order") as raised:
        ks.Config.of({"max.in.flight.requests.per.connection": 6})
    assert "Can't exceed 5 when exactly-once processing is enabled" in str(raised.value.__notes__)


def test_clients_get_no_setting_that_only_kafka_streams_reads() -> None:
    """The client library refuses unknown names."""
    given = {"num.stream.threads": 4, "state.dir": "/data", "reconnect.backoff.ms": 50, "consumer.fetch.min.bytes": 1}
    assert Config.of(given).client_settings("consumer") == {"reconnect.backoff.ms": 50, "fetch.min.bytes": 1}


@pytest.mark.parametrize("package", ["oauthbearer", "oauthbearer.secured"])
def test_a_login_of_java_for_tokens_becomes_the_credentials_of_a_client(package: str) -> None:
    """These are all settings that Java's documentation gives for OAUTHBEARER, and librdkafka's for the same."""
    handler = f"org.apache.kafka.common.security.{package}.OAuthBearerLoginCallbackHandler"
    settings = {
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": "https://login.example/token",
        "sasl.login.callback.handler.class": handler,
        "sasl.jaas.config": LOGIN.format(
            "oauthbearer.OAuthBearerLoginModule", 'clientId="shop" clientSecret="hush" scope="kafka"'
        ),
    }
    assert {
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": "https://login.example/token",
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.client.id": "shop",
        "sasl.oauthbearer.client.secret": "hush",
        "sasl.oauthbearer.scope": "kafka",
    } == for_librdkafka(settings)
