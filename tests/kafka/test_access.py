"""A cluster on which users sign in and may do only what access control allows."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

import kstreamnb as ks
from kstreamnb.background import wait_until
from kstreamnb.kafka.application_reset import reset
from kstreamnb.kafka.bounded_reader import Piece, fetch
from kstreamnb.kafka.broker_process import LocalBroker
from kstreamnb.kafka.output_batch import columns_of
from kstreamnb.kafka.transactional_writer import TransactionalWriter
from tests.command_line import invoke
from tests.kafka.apps import PATIENCE_S, Bench, counting, counts, final
from tests.kafka.old_brokers import broker_of

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

PASSWORD = 'päss "word" \\ 1 €'
TOPIC, GROUP, TRANSACTION = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID


@pytest.fixture(scope="module")
def guarded() -> Iterator[LocalBroker]:
    """A broker with one user."""
    with broker_of(users={"shop": PASSWORD}) as running:
        yield running


def _rule(kind: Any, name: str, operation: str, *, prefix: bool, rule: Any = AclBinding) -> Any:
    pattern = ResourcePatternType.PREFIXED if prefix else ResourcePatternType.LITERAL
    return rule(kind, name, pattern, "User:shop", "*", AclOperation[operation], AclPermissionType.ALLOW)


def _allow(broker: LocalBroker, kind: Any, name: str, *operations: str, prefix: bool = False) -> None:
    admin = ks.kafka.Admin(broker.bootstrap_servers)
    rules = [_rule(kind, name, each, prefix=prefix) for each in operations]
    for future in admin.client.create_acls(rules).values() if rules else ():
        future.result(PATIENCE_S)


def _forbid(broker: LocalBroker, kind: Any, name: str, operation: str) -> None:
    """Take a rule back, and wait until the broker applies that: until then it would still grant what is refused."""
    admin = ks.kafka.Admin(broker.bootstrap_servers)
    rule = _rule(kind, name, operation, prefix=False, rule=AclBindingFilter)
    for future in admin.client.delete_acls([rule]).values():
        future.result(PATIENCE_S)
    assert wait_until(lambda: not admin.client.describe_acls(rule).result(PATIENCE_S), PATIENCE_S)


def _refused(call: Callable[[], Any], *words: str) -> None:
    """Wait until the call is refused with these words: the broker takes a moment to apply the latest rule."""
    end, said = time.monotonic() + PATIENCE_S, ""
    while not all(word in said for word in words):
        assert time.monotonic() < end, said
        with pytest.raises(ks.errors.EngineError) as caught:
            call()
        said = f"{caught.value} {caught.value.detail} {caught.value.hint}"
        assert PASSWORD not in said + repr(caught.value)


def _granted(call: Callable[[], Any]) -> Any:
    """Wait until the call succeeds: the broker takes a moment to apply the latest rule."""
    end = time.monotonic() + PATIENCE_S
    while True:
        try:
            return call()
        except ks.errors.EngineError as error:
            if "uthorization failed" not in str(error.detail) or time.monotonic() > end:
                raise


def test_a_deployment_needs_the_permissions_of_the_recipe_and_no_others(
    guarded: LocalBroker, bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    """S3-02: READ of inputs, WRITE and CREATE of outputs, its group, its transactions; missing permissions are
    named.
    """
    above = Bench(bench.spark, guarded.bootstrap_servers, bench.folder)
    others = above.admin.topics().keys()
    sent = above.fill("sales", 10, 2)
    me, app = guarded.connection("shop"), counting("shop", "sales")

    def run() -> Any:
        return bench.run(app, bootstrap_servers=me, changelogs=True)

    _refused(run, 'topic "sales" does not exist', "topics that this user cannot READ are not listed")
    _allow(guarded, TOPIC, "sales", "READ")
    _refused(run, 'asking for group "shop" failed', "Group authorization failed", "READ on the group", "RECIPES.md")
    _allow(guarded, GROUP, "shop", "READ")
    _refused(run, 'creating topic "shop-out" failed', "uthorization failed", "grant CREATE; RECIPES.md lists")
    _allow(guarded, TOPIC, "shop-", "CREATE", prefix=True)
    _refused(run, 'topic "shop-out"', "uthorization failed", "grant READ; RECIPES.md lists")
    _allow(guarded, TOPIC, "shop-", "READ", prefix=True)
    _refused(run, 'claiming "shop-commits" failed', "Topic authorization failed", "grant WRITE; RECIPES.md lists")
    _allow(guarded, TOPIC, "shop-", "WRITE", prefix=True)
    _refused(run, 'publishing for "shop" as "shop.sink" failed', "Transactional Id authorization failed")
    _refused(run, "grant WRITE on the transactional id; RECIPES.md lists what a deployment needs")
    _allow(guarded, TRANSACTION, "shop.sink", "WRITE")
    query = _granted(run)
    assert counts(sent) == final(above.read("shop-out"))
    assert counts(sent) == final(above.read("shop-counts-changelog"))
    assert {"sales": {0: 5, 1: 5}} == above.group("shop")
    assert PASSWORD not in caplog.text + str(query) + repr(query) + str(query.status())
    captured = ks.Sample.capture(me, "sales", value_serde=ks.Serdes.long(), seconds=PATIENCE_S)
    assert 10 == len(captured)

    _forbid(guarded, GROUP, "shop", "READ")
    above.fill("sales", 10, 2, begin=10)
    _refused(run, 'asking for group "shop" failed', "Group authorization failed", "RECIPES.md")
    _allow(guarded, GROUP, "shop", "READ")

    for kind, name, prefix in ((TOPIC, "shop-", True), (GROUP, "shop", False)):
        _refused(lambda: reset(me, "shop", force=True), "failed", "uthorization failed", "RECIPES.md")
        _allow(guarded, kind, name, "DELETE", prefix=prefix)
    _granted(lambda: reset(me, "shop", force=True))
    assert {"sales", "shop-out"} == {each for each in above.admin.topics().keys() - others if each[:2] != "__"}


def test_a_refusal_names_the_topic_and_what_was_refused(guarded: LocalBroker) -> None:
    """Kafka's own words about transactions and offsets name no topic, and a reader without permission would wait."""
    ks.kafka.Admin(guarded.bootstrap_servers).create_topic("secret")
    me = guarded.connection("shop")
    with pytest.raises(ks.errors.AccessDeniedError, match='reading topic "secret" failed'):
        list(fetch(me, [Piece("secret", 0, 0, 1)]))
    with pytest.raises(ks.errors.AccessDeniedError, match="looking up offsets failed") as caught:
        ks.kafka.Admin(me).offsets(["secret"])
    assert '(topic "secret")' in str(caught.value.detail)
    _allow(guarded, TRANSACTION, "naming.sink", "WRITE")
    _allow(guarded, TOPIC, "naming-commits", "CREATE", "READ", "WRITE")
    for granted in ((), ("DESCRIBE",)):
        _allow(guarded, TOPIC, "secret", *granted)
        writer = TransactionalWriter(me, "naming", "query")
        _granted(writer.open)
        with pytest.raises(ks.errors.AccessDeniedError, match='publishing to topic "secret" failed'):
            writer.publish(0, "offsets 0", columns_of([("secret", 0, 5, b"k", b"v", ())]))


def test_more_permissions_are_needed_for_what_a_deployment_adds_later(guarded: LocalBroker, bench: Bench) -> None:
    """S3-02: partitions for slots, and the limits of output topics, which a production handler has to know."""
    above = Bench(bench.spark, guarded.bootstrap_servers, bench.folder)
    sent, me = above.fill("later-in", 10, 2), guarded.connection("shop")
    above.admin.create_topic("later-out", partitions=2)
    _allow(guarded, TOPIC, "later-in", "READ")
    _allow(guarded, TOPIC, "later-", "CREATE", "READ", "WRITE", prefix=True)
    _allow(guarded, GROUP, "later", "READ")
    _allow(guarded, TRANSACTION, "later.sink", "WRITE", prefix=True)
    handled = {"production.exception.handler": "continue"}

    def run(checkpoint: str = "driver", **options: Any) -> Any:
        return bench.run(counting("later"), checkpoint, bootstrap_servers=me, **options)

    _refused(lambda: run(config=handled), "looking up settings failed", "grant DESCRIBE_CONFIGS; RECIPES.md lists")
    _allow(guarded, TOPIC, "later-out", "DESCRIBE_CONFIGS")
    _granted(lambda: run(config=handled))
    assert counts(sent) == final(above.read("later-out"))
    _refused(
        lambda: run("executors", publish="executors", application_id="later"),
        'adding a partition to topic "later-commits" failed',
        "grant ALTER; RECIPES.md lists",
    )


def test_who_cannot_sign_in_is_told_why(guarded: LocalBroker) -> None:
    """A wrong password fails immediately; unauthenticated clients are disconnected, and the hint says what to check."""
    wrong = {**guarded.connection("shop"), "sasl.password": "guessed"}
    with pytest.raises(ks.errors.EngineError) as caught:
        ks.kafka.Admin(wrong, patience_s=300).topics()
    assert "Invalid username or password" in str(caught.value.detail)
    assert "guessed" not in str(caught.value) + str(caught.value.detail)
    nobody = guarded.connection("shop")["bootstrap.servers"]
    with pytest.raises(ks.errors.EngineError) as caught:
        ks.kafka.Admin(nobody, patience_s=1).topics()
    assert "security.protocol" in f"{caught.value.hint} {caught.value.detail}"  # librdkafka's word or ours
    with pytest.raises(ks.errors.ConfigError, match='user "nobody" does not exist'):
        guarded.connection("nobody")


def test_users_sign_in_again_at_a_broker_that_was_away(guarded: LocalBroker) -> None:
    """Addresses, users and rules survive the process."""
    me = guarded.connection("shop")
    _allow(guarded, TOPIC, "kept", "READ", "CREATE")
    _granted(lambda: ks.kafka.Admin(me).create_topic("kept"))
    guarded.kill()
    guarded.start()
    end = time.monotonic() + PATIENCE_S
    assert me == guarded.connection("shop")
    while "kept" not in ks.kafka.Admin(me).topics():  # its rules are loaded again after its start
        assert time.monotonic() < end


def test_log_and_status_of_a_query_say_that_its_password_was_changed(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    """The broker restarts with another password: it refuses connections first, and then the client."""

    def warned(reason: str) -> bool:
        return any("rotated: broker cannot be reached" in each and reason in each for each in caplog.messages)

    def await_line(reason: str) -> None:
        end = time.monotonic() + PATIENCE_S
        while not warned(reason):
            assert time.monotonic() < end, caplog.messages
            time.sleep(0.05)

    with broker_of(users={"shop": "first"}) as own:
        for kind, name in ((TOPIC, "rotated-"), (GROUP, "rotated"), (TRANSACTION, "rotated.sink")):
            _allow(own, kind, name, "ALL", prefix=True)
        above = Bench(bench.spark, own.bootstrap_servers, bench.folder)
        sent = above.fill("rotated-in", 10, 2)
        query = _granted(lambda: bench.deploy(counting("rotated"), bootstrap_servers=own.connection("shop")))
        assert query.await_input(PATIENCE_S)
        own.stop()
        await_line("Connection refused")
        own.users = {"shop": "second"}
        own.start()
        assert query.status(lag=False).away is not None
        await_line("Invalid username or password")
        status = query.status(lag=False)
        assert "running" == status.state
        assert "Invalid username or password" in str(status.away)
        assert f"waits for the broker: {status.away}" in str(status)
        assert "second" not in caplog.text
        query.stop()
        sent += above.fill("rotated-in", 10, 2, begin=10)
        bench.run(counting("rotated"), bootstrap_servers=own.connection("shop"))
        assert counts(sent) == final(above.read("rotated-out"))
        assert 20 == len(above.read("rotated-out"))


def test_commands_sign_in_with_the_properties_of_kafkas_tools(guarded: LocalBroker, tmp_path: Path) -> None:
    """Without them the broker closes the connection; the password is in no output."""
    ks.kafka.Admin(guarded.bootstrap_servers).create_topic("signed")
    _allow(guarded, TOPIC, "signed", "READ")
    ks.kafka.produce(guarded.bootstrap_servers, [ks.TopicRecord("signed", 0, 0, 5, "a", 1)])
    quoted = json.dumps(PASSWORD, ensure_ascii=False)  # for the login module
    password = json.dumps(quoted)[1:-1]  # with the escapes of the file
    file = tmp_path / "client.properties"
    file.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
        "sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required \\\n"
        f'   username="shop" password={password};\n'
    )
    address = guarded.connection("shop")["bootstrap.servers"]
    command = ["capture", "--servers", address, "signed", "-o", str(tmp_path / "sample.md")]
    end, done = time.monotonic() + PATIENCE_S, None
    while done is None or ("1 records" not in done.output and time.monotonic() < end):  # the rule may take a moment
        done = invoke([*command, "--config-file", str(file)])
    assert "1 records, 0 undecodable" in done.output, done.output
    assert PASSWORD not in done.output
    assert 0 != invoke([*command, "--seconds", "1"]).exit_code
    file.write_text(file.read_text().replace(password, '"wrong"'))
    refused = invoke([*command, "--config-file", str(file)]).output
    assert "Hint: check user, password, sasl.mechanism and security.protocol" in refused
