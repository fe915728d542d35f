"""Samples: from text, slices, merges, shifts, disorder, statistics, redaction, displays."""

from __future__ import annotations

import copy
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstreamnb import StreamsBuilder, replay
from kstreamnb.core.codec import SerializedValue
from kstreamnb.core.record import TopicRecord, Windowed
from kstreamnb.core.serdes import Serdes
from kstreamnb.errors import ConfigError
from kstreamnb.samples import Sample
from kstreamnb.samples.privacy import _permuted

SALES = Sample.from_text(
    """
    topic  | key  | value           | time | partition
    sales  | shoe | {"quantity": 1} | 0    | 0
    sales  | sock | {"quantity": 2} | 5    | 1
    prices | shoe | {"price": 9.5}  | 5    | 0
    sales  | shoe | {"quantity": 3} | 3    | 0
    sales  | hat  |                 | 20   | 0
    """
)

_RECORDS = st.lists(
    st.tuples(st.sampled_from("ab"), st.integers(0, 2), st.integers(0, 50), st.sampled_from("xyz"), st.integers()),
    max_size=30,
)


def _sample(rows):
    """A sample with counted offsets."""
    seen, records = {}, []
    for topic, partition, time, key, value in rows:
        offset = seen[topic, partition] = seen.get((topic, partition), -1) + 1
        records.append(TopicRecord(topic, partition, offset, time, key, value))
    return Sample(tuple(records))


def test_a_typed_table_gives_records_with_counted_offsets():
    """Offsets count in each partition, and the printed table is read back as an equal sample."""
    assert 5 == len(SALES)
    assert [0, 0, 0, 1, 2] == [record.offset for record in SALES]
    assert ("prices", "sales") == SALES.topics
    assert Sample.from_text(SALES.to_text()) == SALES


def test_without_a_partition_column_records_are_not_assigned_yet():
    """They go to the partition of their key, wherever they are replayed, or to the given number."""
    text = "key | value\nKEY-0 | 1\nKEY-1 | 2\nKEY-3 | 3"
    assert [-1, -1, -1] == [record.partition for record in Sample.from_text(text, topic="t")]
    spread = Sample.from_text(text, topic="t", partitions=4)
    assert [0, 2, 3] == [record.partition for record in spread]
    assert spread == Sample.from_text(text, topic="t").with_partitions({"t": 4})
    assert [0, 0, 0] == [record.partition for record in spread.with_partitions(1)]
    by_long = Sample.from_text("key\n1\n2", topic="t").with_partitions(4, key_serde=Serdes.long())
    assert [0, 2] != [by_long[0].partition, -1]


def test_headers_of_records_are_pairs_or_a_mapping():
    """As for `pipe_input` and `Record`: a producer refuses other headers."""
    samples = [
        Sample.from_records([("sales", 0, 0, 5, "a", 1, given)]) for given in ({"trace": b"t1"}, [("trace", b"t1")])
    ]
    assert [(("trace", b"t1"),)] * 2 == [sample[0].headers for sample in samples]
    with pytest.raises(ConfigError, match='header "trace" must be bytes or None, got type "str"'):
        Sample.from_records([("sales", 0, 0, 5, "a", 1, {"trace": "t1"})])


def test_a_record_without_a_time_takes_that_of_the_one_before():
    """A burst is one row."""
    sample = Sample.from_text("key | time\na | 7\nb |\nc | 9\nd |", topic="t")
    assert [7, 7, 9, 9] == [record.timestamp for record in sample]


def test_slices_are_samples_and_keep_offsets():
    """Indexing, head, where, between and of_topic all return samples of the same records."""
    assert "sock" == SALES[1].key
    assert [0, 1] == [record.offset for record in SALES[2:4]]
    assert SALES[:2] == SALES.head(2)
    assert SALES[2:3] == SALES.of_topic("prices")
    assert [5, 5, 3] == [record.timestamp for record in SALES.between(3, 20)]
    assert [2] == [record.offset for record in SALES.where(lambda record: record.value is None)]
    with pytest.raises(ConfigError, match='the sample has no topic "price"'):
        SALES.of_topic("price")


@given(_RECORDS, st.integers(0, 3))
def test_a_merge_takes_the_least_head_first(rows, cut):
    """Merging uses the order in which a task takes records: the least visible head first."""
    sample = _sample(rows)
    lanes = {}
    for record in sample:
        lanes.setdefault((record.topic, record.partition), []).append(record)
    expected = []
    while lanes:
        place = min(lanes, key=lambda place: (lanes[place][0].timestamp, *place))
        expected.append(lanes[place].pop(0))
        lanes = {key: lane for key, lane in lanes.items() if lane}
    assert expected == list(sample.merge())
    parts = [sample.where(lambda r, n=n: r.partition == n) for n in range(3)]
    assert expected == list(parts[cut % 3].merge(*(part for n, part in enumerate(parts) if n != cut % 3)))


def test_samples_that_share_a_partition_are_interleaved_and_counted_anew():
    """Two recordings of one topic become one."""
    merged = SALES.of_topic("sales") + SALES.of_topic("sales").shift("1ms")
    assert [(0, 0), (1, 1), (3, 2), (4, 3), (20, 4), (21, 5)] == [
        (record.timestamp, record.offset) for record in merged if record.partition == 0
    ]


def test_times_are_shifted():
    """By a duration, or so that the earliest is at an instant."""
    assert [-5, 0, 0, -2, 15] == [record.timestamp for record in SALES.shift("-5ms")]
    assert [7, 12, 12, 10, 27] == [record.timestamp for record in SALES.starting_at(7)]
    assert 0 == len(Sample(()).starting_at(7))


@given(_RECORDS, st.integers(0, 5), st.integers(0, 40), st.floats(0, 1))
def test_disorder_is_bounded_and_the_same_for_the_same_seed(rows, seed, by, share):
    """Records of a partition change places, none is later than the bound, and nothing else changes."""
    sample = _sample(sorted(rows, key=lambda row: row[2]))
    mixed = sample.disorder(seed=seed, by=f"{by}ms", share=share)
    assert mixed == sample.disorder(seed=seed, by=f"{by}ms", share=share)

    def content(records):
        return sorted((r.topic, r.partition, r.timestamp, r.key, r.value) for r in records)

    assert content(sample) == content(mixed)
    assert all(topic.lateness.max_ms <= by for topic in mixed.statistics().topics)
    assert content(sample) == content(sample.disorder(seed=seed))


def test_disorder_differs_by_seed_and_leaves_global_randomness_alone():
    """Another seed produces another order."""
    sample = _sample([("a", 0, n, "x", n) for n in range(50)])
    orders = {tuple(r.value for r in sample.disorder(seed=seed, by="20ms")) for seed in range(5)}
    assert 5 == len(orders)
    assert tuple(range(50)) not in orders
    assert sample == sample.disorder(seed=1, by="20ms", share=0.0)
    with pytest.raises(ConfigError, match="must be between 0 and 1"):
        sample.disorder(seed=1, share=2)


def test_statistics_tell_keys_skew_and_lateness():
    """A suggested grace keeps nearly all records."""
    rows = [("a", n % 2, 1000 * n, "x" if n % 4 else "y", n) for n in range(100)]
    rows[50] = ("a", 0, 38_000, None, None)
    stats = _sample(rows).statistics()["a"]
    assert (100, 2, 1, 1) == (stats.records, stats.keys, stats.null_keys, stats.tombstones)
    assert ((0, 50), (1, 50)) == stats.partitions
    assert 1.0 == stats.skew
    assert (1, 10_000) == (stats.lateness.late, stats.lateness.max_ms)
    assert 0 == stats.lateness.quantile_ms(0.99)
    assert 10_000 == stats.lateness.suggested_grace_ms()
    assert (("x", 74), ("y", 25)) == stats.top_keys
    assert "10s keeps 99.9% of the records" in str(stats)
    skewed = _sample([("a", 0, 0, "x", 1)] * 3 + [("a", 1, 0, "x", 1)]).statistics()["a"]
    assert 1.5 == skewed.skew
    assert "no records" == str(Sample(()).statistics())
    with pytest.raises(ConfigError, match='topic "b" does not exist'):
        _sample(rows).statistics()["b"]
    for call in (_sample(rows).statistics, _sample(rows).describe):
        with pytest.raises(ConfigError, match="top must be at least 1, got -1"):
            call(top=-1)


def test_fields_are_redacted_wherever_they_are():
    """Nested fields and lists are covered; headers and undecoded bytes lose their content."""
    value = {"card": "4711", "customer": {"name": "Ada", "age": 36}, "items": [{"name": "x"}, {"n": 1}]}
    before = copy.deepcopy(value)
    sample = Sample.from_records(
        [("t", 0, 0, 0, "k", value, (("h", b"secret"),)), ("t", 0, 1, 0, "k", SerializedValue(b"secret"))]
    )
    clean = sample.redact("card", "customer.name", "items.name")
    assert {
        "card": "***",
        "customer": {"name": "***", "age": 36},
        "items": [{"name": "***"}, {"n": 1}],
    } == clean[0].value
    assert (("h", None),) == clean[0].headers
    assert b"" == clean[1].value
    assert before == value
    assert "redacted: card, customer.name, items.name" in repr(clean)
    with pytest.raises(ConfigError, match='no record has the field "crad"'):
        sample.redact("crad")
    with pytest.raises(ConfigError, match="no fields to redact"):
        sample.redact()


def test_hashed_keys_stay_equal_to_one_another():
    """Joins and counts are preserved, partitions stay those of the real keys, other salts produce other hashes."""
    sample = Sample.from_records([("a", 2, 0, 0, "ada", {"friend": "bob"}), ("b", 1, 0, 0, "bob", None)])
    hidden = sample.hash_keys("friend", salt="s")
    assert hidden[0].value["friend"] == hidden[1].key
    assert [2, 1] == [record.partition for record in hidden]
    assert 16 == len(hidden[0].key)
    assert hidden != sample.hash_keys("friend", salt="t")
    assert hidden == sample.hash_keys("friend", salt="s")
    with pytest.raises(ConfigError, match="without a salt"):
        sample.hash_keys(salt="")


def test_hashed_bools_are_bools_and_stay_different():
    """Some salts exchange the two."""
    sample = Sample.from_records([("t", 0, at, 0, key, None) for at, key in enumerate((False, True))])
    hidden = [[record.key for record in sample.hash_keys(salt=salt)] for salt in "abcdefgh"]
    assert [[False, True], [True, False]] == sorted(map(list, set(map(tuple, hidden))))


def test_hashed_keys_have_the_type_of_the_key():
    """So the topic's serde writes them; different numbers stay different, in 32 bits if the key has no more."""
    uuid, windowed = UUID(int=1), Windowed(7, 0, 10)
    keys = [7, 2**40, -7, 2**70, uuid, b"ab", SerializedValue(bytes(8)), windowed, {"id": 7}, [7, "a"], None, "a"]
    sample = Sample.from_records([("t", 0, at, 0, key, None) for at, key in enumerate(keys)])
    hidden = [record.key for record in sample.hash_keys(salt="s")]
    assert list(map(type, keys)) == list(map(type, hidden))
    assert [] == [key for key, hashed in zip(keys, hidden, strict=True) if key == hashed and key is not None]
    seven, wide, negative, _, _, two, eight, within, of_dict, of_list, _, _ = hidden
    assert 0 <= seven < 2**31 <= wide < 2**63
    assert -(2**31) <= negative < 0
    assert [2, 8] == [len(two), len(eight)]
    assert (Windowed(seven, 0, 10), {"id": seven}, seven) == (within, of_dict, of_list[0])
    many = Sample.from_records([("t", 0, at, 0, at, None) for at in range(3000)]).hash_keys(salt="s")
    assert 3000 == len({record.key for record in many})
    assert 256 == len({_permuted(b"s", number, 8) for number in range(256)})
    builder = StreamsBuilder("counts")
    builder.stream("t", key_serde="long").to("out", key_serde="long")
    assert [r.key for r in many] == [r.key for r in replay(builder.build(), many).output("out")]


def test_the_hash_belongs_to_the_content():
    """Equal samples have equal hashes on every machine; notes and the order of names in a dict do not matter."""
    sample = Sample.from_records([("t", 0, 0, 0, "k", {"a": 1, "b": 2})], note="here")
    other = Sample.from_records([("t", 0, 0, 0, "k", {"b": 2, "a": 1})], note="there")
    assert sample == other
    assert sample.content_hash == other.content_hash
    assert hash(sample) == hash(other)
    assert sample.content_hash != sample.shift("1ms").content_hash


def test_the_html_of_a_sample_shows_the_same_facts():
    """Self-contained, escaped, with a header row."""
    sample = Sample.from_records([("t", 0, n, n, "<k>", n) for n in range(12)], note="made")
    html = sample._repr_html_()
    assert "<script" not in html
    assert "&lt;k&gt;" in html
    assert 12 > html.count("<tr>") == 11
    for fact in (sample.content_hash, "made", "10 of 12", '<th scope="col" style="text-align:left">key</th>'):
        assert fact in html


def test_a_sample_shows_its_hash_its_notes_and_its_first_records():
    """Nothing is truncated silently, and undecodable records are counted."""
    many = _sample([("a", 0, n, "x", n) for n in range(1000)])
    assert f"Sample of 1,000 records, hash {many.content_hash}" == repr(many).splitlines()[0]
    assert "10 of 1,000" == repr(many).splitlines()[-1]
    bad = Sample.from_records([("t", 0, 0, 0, "k", SerializedValue(b"\x00\xff"))])
    assert "1 could not be decoded" in repr(bad)
    assert "undecoded:00ff" in repr(bad)
    assert bad == bad.undecodable
    assert Sample.from_text(bad.to_text()) == bad


def test_bytes_of_windowed_counts_name_the_serdes_that_read_them():
    """Only if the bytes may be those of a windowed key and of a whole number."""
    window = Serdes.time_windowed("string", "1h").serialize(Windowed("shoe", 1_767_225_600_000, 1_767_229_200_000))
    count = Serdes.long().serialize(3)

    def shown(key, value):
        return repr(Sample.from_records([("t", 0, 0, 0, key, value)]))

    both = shown(SerializedValue(window), SerializedValue(count))
    assert (
        'try key_serde=ks.Serdes.time_windowed(ks.Serdes.string(), "1h") for windowed keys and value_serde="lo' in both
    )
    assert 'stay as bytes; try value_serde="long" for counts' in shown("a", SerializedValue(count))
    assert "stay as bytes\n" in shown("a", SerializedValue(b"\xff"))
