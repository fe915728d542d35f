"""Promises around a topology: no cluster for tests, one object for all engines, early warnings."""

from __future__ import annotations

import socket
import threading
import time
from typing import Any

import pytest

import kstreamnb as ks
from tests.semantics.test_fraud import fraud


def test_the_test_driver_needs_no_thread_no_socket_and_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """S0-52, S4-46: a dozen lines; the example as often printed raises no alert, and the driver says why."""

    def refused(*_: Any, **__: Any) -> None:
        raise AssertionError("the driver opened a socket")

    monkeypatch.setattr(socket, "socket", refused)
    topology, threads = fraud(), set(threading.enumerate())
    started = time.process_time()
    driver = ks.TopologyTestDriver(topology)
    transactions = driver.create_input_topic("transactions")
    alerts = driver.create_output_topic("fraud-alerts")
    for number, (amount, at) in enumerate([(1500, 162_000), (2000, 162_010), (1800, 162_020)]):
        transactions.pipe_input(f"tx{number}", {"userId": "userA", "amount": amount}, at=at)
    assert alerts.is_empty()
    assert time.process_time() - started < 0.5  # 50 ms on an idle machine
    assert not set(threading.enumerate()) - threads
    why = str(ks.Replay.of(driver).why_no_output("fraud-alerts"))
    assert "3 records" in why
    assert "filter" in why


def test_tests_and_production_take_the_same_objects() -> None:
    """S0-53, S4-16: one topology and one config for both; the guarantee is not part of the topology's fingerprint."""
    topology = fraud()
    before = topology.fingerprint()
    for guarantee in ("exactly_once_v2", "at_least_once"):
        config = ks.Config(application_id="fraud-detector", processing_guarantee=guarantee)
        with ks.TopologyTestDriver(topology, config) as driver:
            tested = driver.topology.fingerprint()
        plan = ks.plan(topology, partitions={"transactions": 4, "risk-scores": 1}, config=config)
        (deployed,) = plan.deployment.applications
        assert ("fraud-detector", tested) == (deployed.id, deployed.topology.fingerprint())
    assert before == topology.fingerprint() == fraud().fingerprint()


def test_a_processor_with_a_store_below_a_changed_key_is_warned_of() -> None:
    """S4-03: the DSL repartitions grouped records automatically; before a processor it does not."""

    class Count(ks.Processor[str, str, str, int]):
        def process(self, record: ks.Record[str, str]) -> None:
            store = self.context.get_state_store("counts")
            store.put(record.key, (store.get(record.key) or 0) + 1)

    builder = ks.StreamsBuilder("papi")
    builder.add_state_store(ks.Stores.in_memory_key_value_store("counts", value_serde="long"))
    builder.stream("in").select_key(lambda key, value: value).process(Count, "counts", name="counter")
    findings = ks.testing.check(builder.build(), partitions={"in": 4})
    (finding,) = [each for each in findings if each.subject == '"counter"']
    assert "repartition()" in finding.remedy
    mended = ks.StreamsBuilder("papi")
    mended.add_state_store(ks.Stores.in_memory_key_value_store("counts", value_serde="long"))
    mended.stream("in").select_key(lambda key, value: value).repartition(name="by-value").process(Count, "counts")
    assert not ks.testing.check(mended.build(), partitions={"in": 4})


def test_a_buffer_without_bound_is_pointed_out_and_a_full_one_lets_the_oldest_go_or_stops() -> None:
    """S3-26: sorting an unbounded stream is impossible: a window or a size is needed."""

    def suppressed(buffer: Any) -> ks.Topology:
        builder = ks.StreamsBuilder("held")
        counts = builder.stream("in").group_by_key().count(store="counts")
        counts.suppress(ks.Suppressed.until_time_limit("1h", buffer)).to_stream().to("out", value_serde="long")
        return builder.build()

    findings = ks.testing.check(suppressed(ks.BufferConfig.unbounded()))
    assert ["its buffer is unlimited"] == [each.fact.partition(":")[0] for each in findings]
    driver = ks.TopologyTestDriver(suppressed(ks.BufferConfig.max_records(2).emit_early_when_full()))
    for at, key in enumerate("abc"):
        driver.create_input_topic("in").pipe_input(key, "x", at=at)
    assert [("a", 1)] == driver.create_output_topic("out").read_key_values_to_list()
    strict = ks.TopologyTestDriver(suppressed(ks.BufferConfig.max_records(2).shut_down_when_full()))
    source = strict.create_input_topic("in")
    source.pipe_input("a", "x", at=0)
    source.pipe_input("b", "x", at=1)
    with pytest.raises(ks.KStreamError):
        source.pipe_input("c", "x", at=2)


def test_an_application_needs_an_id_and_a_source_and_nothing_else() -> None:
    """S1-42, S2-36: every setting has a default; a missing serde is reported at the first value that JSON cannot
    write.
    """
    config = ks.Config(application_id="streams-example")
    assert "streams-example" == config.application_id
    builder = ks.StreamsBuilder()
    builder.stream("in").map_values(lambda value: {value}).to("out")
    driver = ks.TopologyTestDriver(builder.build(), config)
    with pytest.raises(ks.KStreamError) as error:
        driver.create_input_topic("in").pipe_input("a", "x", at=0)
    text = "\n".join([str(error.value), *error.value.__notes__])
    assert "KSTREAM-SINK-0000000002" in text
    assert "out" in text
    threads = ks.config_report({"num.stream.threads": 4})["num.stream.threads"]
    assert ("translated", "spark_session(cores=), or the cores of the cluster") == (threads.answer, threads.words)


def test_a_processor_s_own_store_is_fast_enough_for_sub_millisecond_work() -> None:
    """S4-09: 99 of 100 puts and gets of an in-memory store take less than a millisecond."""
    builder = ks.StreamsBuilder()
    builder.table("in", store="rows")
    driver = ks.TopologyTestDriver(builder.build())
    driver.pipe([ks.TopicRecord("in", 0, n, n, f"key{n}", n) for n in range(1000)])
    rows, spent = driver.get_key_value_store("rows"), []
    assert rows is not None
    for number in range(1000):
        started = time.perf_counter()
        assert rows[f"key{number}"] == number
        spent.append(time.perf_counter() - started)
    assert sorted(spent)[989] < 0.001
