"""Bounded reads from a real broker."""

from __future__ import annotations

import pytest
from confluent_kafka import Producer, TopicPartition

from kstreamnb.background import wait_until
from kstreamnb.core.codec import SerializedValue
from kstreamnb.core.record import TopicRecord
from kstreamnb.errors import DataLossError, UnknownTopicError
from kstreamnb.kafka.bounded_reader import BoundedReader, Piece, TopicFollower, fetch, pieces_between
from kstreamnb.kafka.producer import produce
from tests.kafka.apps import PATIENCE_S, settle

pytestmark = pytest.mark.kafka


def _fill(servers, topic, partitions=2, count=100):
    """Records with a timestamp of ten times their number plus one, spread over the partitions round-robin."""
    records = [TopicRecord(topic, n % partitions, 0, 10 * n + 1, f"k{n}", n, (("h", b"x"),)) for n in range(count)]
    assert count == produce(servers, records, keep_partitions=True)


def _read(servers, pieces, **options):
    found = {}
    for topic, partition, records in fetch(servers, pieces, **options):
        found.setdefault((topic, partition), []).extend(records)
    return found


def test_offsets_between_are_read_whole_and_in_order(servers, topic):
    """Exactly the records between two offsets are read, partition by partition, as a task takes them."""
    orders = topic(2)
    _fill(servers, orders)
    found = _read(servers, [Piece(orders, 0, 10, 50), Piece(orders, 1, 0, 7)], chunk=8)
    assert [*range(10, 50)] == [record[0] for record in found[orders, 0]]
    assert [*range(7)] == [record[0] for record in found[orders, 1]]
    assert (10, 201, SerializedValue(b"k20"), SerializedValue(b"20"), (("h", b"x"),)) == found[orders, 0][0]
    assert found == _read(servers, [Piece(orders, 0, 10, 50), Piece(orders, 1, 0, 7)])


def test_null_keys_and_values_stay_null(servers, topic):
    """A tombstone is None, not empty bytes."""
    orders = topic()
    produce(servers, [TopicRecord(orders, 0, 0, 5, None, None), TopicRecord(orders, 0, 0, 5, "", "")])
    [(_, _, records)] = fetch(servers, [Piece(orders, 0, 0, 2)])
    assert [(None, None), (b"", b'""')] == [record[2:4] for record in records]


def test_only_committed_records_are_read_and_control_records_end_a_piece(servers, topic, admin):
    """Aborted records are skipped, and a chunk may end with transaction markers."""
    orders = topic()
    producer = Producer({"bootstrap.servers": servers, "transactional.id": orders})
    producer.init_transactions(30)
    for number, keep in enumerate([True, False, True, False]):
        producer.begin_transaction()
        producer.produce(orders, str(number).encode(), partition=0)
        producer.flush()
        (producer.commit_transaction if keep else producer.abort_transaction)(30)
    settle(admin, orders)
    reader = BoundedReader(servers, [orders])
    assert {orders: {0: 8}} == reader.end()
    [(_, _, records)] = fetch(servers, pieces_between(reader.beginning(), reader.end()))
    assert [b"0", b"2"] == [record[3] for record in records]


def test_the_end_stays_before_an_open_transaction(servers, topic, admin):
    """Uncommitted records are not visible."""
    orders = topic()
    producer = Producer({"bootstrap.servers": servers, "transactional.id": orders})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(orders, b"open", partition=0)
    producer.flush()
    reader = BoundedReader(servers, [orders])
    assert {orders: {0: 0}} == reader.end()
    producer.commit_transaction(30)
    settle(admin, orders)  # the broker marks the partition a moment after it has accepted the commit
    assert {orders: {0: 2}} == reader.end()


def test_times_become_offsets(servers, topic):
    """The first record at or after a time; the end if there is none."""
    orders = topic(2)
    _fill(servers, orders, count=10)
    reader = BoundedReader(servers, [orders])
    assert {orders: {0: 0, 1: 0}} == reader.at_time(0)
    assert {orders: {0: 2, 1: 2}} == reader.at_time(32)
    assert {orders: {0: 5, 1: 5}} == reader.at_time(1000)


def test_batches_are_cut_by_event_time(servers, topic):
    """A limited batch takes the records that are first over all partitions."""
    orders = topic(2)
    _fill(servers, orders, count=100)
    reader = BoundedReader(servers, [orders])
    start, end, sizes = reader.beginning(), reader.end(), []
    while start != end:
        cut = reader.batch_end(start, end, 16)
        sizes.append(sum(piece.end - piece.start for piece in pieces_between(start, cut)))
        times = [r[1] for _, _, records in fetch(servers, pieces_between(start, cut)) for r in records]
        done = sum(sizes)
        assert [10 * n + 1 for n in range(done - sizes[-1], done)] == sorted(times)
        start = cut
    assert max(sizes) <= 16
    assert 100 == sum(sizes)


def test_lost_records_are_refused(servers, topic, admin):
    """A topic that ends earlier than the position is not read on."""
    orders = topic()
    _fill(servers, orders, partitions=1, count=3)
    reader = BoundedReader(servers, [orders])
    with pytest.raises(DataLossError, match="ends at offset 3 in partition 0, before offset 9"):
        reader.check({orders: {0: 9}}, reader.end())
    with pytest.raises(DataLossError, match="no longer has the offsets"):
        list(fetch(servers, [Piece(orders, 0, 77, 99)]))
    with pytest.raises(UnknownTopicError, match='topic "nowhere" does not exist'):
        BoundedReader(servers, ["nowhere"]).end()


def test_removed_records_are_noted_if_they_may_be_skipped(servers, topic, admin):
    """Up to the end of the piece, of which nothing may be left."""
    orders = topic()
    _fill(servers, orders, partitions=1, count=20)
    place = TopicPartition(orders, 0, 15)
    admin.client.delete_records([place])[place].result(10)
    for end, left in ((20, [*range(15, 20)]), (12, [])):
        skipped = []
        found = list(fetch(servers, [Piece(orders, 0, 10, end)], skipped=skipped))
        assert left == [record[0] for _, _, records in found for record in records]
        assert [Piece(orders, 0, 10, min(15, end))] == skipped


def test_an_interrupted_read_leaves_nothing_behind(servers, topic):
    """An abandoned read does not disturb the next one."""
    orders = topic(2)
    _fill(servers, orders)
    pieces = [Piece(orders, 0, 0, 50), Piece(orders, 1, 0, 50)]
    given_up = fetch(servers, pieces, chunk=5)
    next(given_up)
    given_up.close()
    assert [50, 50] == [len(records) for records in _read(servers, pieces).values()]


def test_a_follower_has_the_records_that_arrive(servers, topic):
    """They are read without a look-up; the next wait drops those before its beginning, and waits for others."""
    orders = topic(2)
    _fill(servers, orders, count=10)
    follower = TopicFollower(servers, {orders: {0: 5, 1: 4}}, most=100)
    try:
        begin = {orders: {0: 5, 1: 4}}
        end = _arrives(follower, begin, 1)
        assert {orders: {0: 5, 1: 5}} == end
        [(name, partition, [record])] = follower.take([Piece(orders, 1, 4, 5)])
        assert (orders, 1, 4, b"k9") == (name, partition, record[0], record[2])
        assert end == follower.wait(end, 0.05)
        _fill(servers, orders, count=4)
        assert {orders: {0: 7, 1: 7}} == _arrives(follower, end, 4)
        assert [(orders, 0, 2), (orders, 1, 2)] == [
            (*each[:2], len(each[2])) for each in follower.take([Piece(orders, 0, 5, 7), Piece(orders, 1, 5, 7)])
        ]
        assert follower.take([Piece(orders, 1, 4, 7)]) is None  # its first record was dropped
        assert follower.wait(begin, 0) is None
    finally:
        follower.close()


def test_a_follower_sees_committed_records_and_not_the_end_of_a_transaction(servers, topic):
    """Records of an open or aborted transaction never arrive, and their offsets alone are not worth a batch."""
    orders = topic()
    producer = Producer({"bootstrap.servers": servers, "transactional.id": orders})
    producer.init_transactions(30)
    begin = {orders: {0: 0}}
    follower = TopicFollower(servers, begin, most=100)
    try:
        for finish in (producer.abort_transaction, producer.commit_transaction):
            producer.begin_transaction()
            producer.produce(orders, b"value", partition=0)
            producer.flush()
            assert begin == follower.wait(begin, 0.3)
            finish(30)
        [(_, _, [record])] = follower.take([Piece(orders, 0, 0, _arrives(follower, begin, 1)[orders][0])])
        assert 2 == record[0]  # after the aborted record and its marker
    finally:
        follower.close()


def test_a_follower_gives_up_when_more_arrives_than_it_keeps(servers, topic):
    """A reader that is far behind reads large pieces instead."""
    orders = topic(1)
    _fill(servers, orders, 1, count=30)
    follower = TopicFollower(servers, {orders: {0: 0}}, most=10)
    try:
        assert wait_until(lambda: follower.wait({orders: {0: 0}}, 0.5) is None, PATIENCE_S)
    finally:
        follower.close()


def _arrives(follower, begin, count):
    """Wait for that many offsets, which may arrive one by one; return the offsets after them."""
    for _ in range(100):
        end = follower.wait(begin, 0.1)
        if sum(end[t][p] - begin[t][p] for t in end for p in end[t]) >= count:
            return end
    raise AssertionError(end)
