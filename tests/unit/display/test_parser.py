"""Descriptions of other applications: parsed, printed again, and refused with the faulty line."""

from __future__ import annotations

import pytest

from kstreamnb.display.parser import parse_description
from kstreamnb.errors import TopologyError

TEXT = """Topologies:
   Sub-topology: 0
    Source: KSTREAM-SOURCE-0000000000 (topics: [shop.orders.v1, shop.returns])
      --> by.customer
    Processor: by.customer (stores: [last.seen, totals])
      --> out, route
      <-- KSTREAM-SOURCE-0000000000
    Sink: out (topic: shop.totals)
      <-- by.customer
    Sink: route (extractor class: com.shop.Engine$$Lambda/0x0000@1a2b)
      <-- by.customer

  Sub-topology: 1 for global store (will not generate tasks)
    Source: rates-source (topics: [rates])
      --> rates
    Processor: rates (stores: [rates-store])
      --> none
      <-- rates-source
  Sub-topology: 2
    Source: audit (topics: (audit|log)[.]v\\d+)
      --> none

"""


def test_a_foreign_text_comes_back_byte_for_byte() -> None:
    """Dots in names, lists, patterns, global stores and extractors survive the round trip."""
    description = parse_description(TEXT)
    assert str(description) == TEXT
    nodes = description.nodes()
    assert nodes["KSTREAM-SOURCE-0000000000"].topics == ("shop.orders.v1", "shop.returns")
    assert nodes["audit"].pattern == r"(audit|log)[.]v\d+"
    assert nodes["by.customer"].stores == ("last.seen", "totals")
    assert nodes["route"].extractor == "com.shop.Engine$$Lambda/0x0000@1a2b"
    assert [sub.is_global for sub in description.subtopologies] == [False, True, False]


def test_header_indentation_and_line_ends_do_not_matter() -> None:
    """A text pasted without its header, with other indentation and Windows line ends, is parsed the same."""
    pasted = "\r\n".join(line.strip() for line in TEXT.splitlines()[1:])
    assert parse_description(pasted) == parse_description(TEXT)


def test_the_layout_of_old_versions_is_read_too() -> None:
    """Kafka 1.x wrote another header, more spaces and empty edges."""
    old = (
        "Topology\nSub-topologies:\n  Sub-topology: 0\n\tSource:  s (topics: [a])\n\t\t--> k\n"
        "\tSink:  k (topic: b)\n\t\t<-- s\nGlobal Stores: none"
    )
    new = "Sub-topology: 0\nSource: s (topics: [a])\n--> k\nSink: k (topic: b)\n<-- s"
    assert parse_description(old) == parse_description(new)


def test_a_pattern_in_brackets_is_not_a_list_of_topics() -> None:
    """Characters that are illegal in topics distinguish a pattern from a list."""
    source = parse_description("Sub-topology: 0\nSource: s (topics: [ab][cd]+|[x])\n--> none").nodes()["s"]
    assert (source.pattern, source.topics) == ("[ab][cd]+|[x]", ())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Source: s (topics: [a])", 'line 1 of the description cannot be read: "Source: s (topics: [a])"'),
        ("Sub-topology: 0\n  Stream: s", 'line 2 of the description cannot be read: "Stream: s"'),
        ("Sub-topology: 0\n  --> s", 'line 2 of the description cannot be read: "--> s"'),
        (
            "Sub-topology: 0\nSource: s (topics: [a])\n--> gone",
            'node "s" is connected to "gone", which is not in sub-topology 0',
        ),
    ],
)
def test_what_cannot_be_read_is_named(text: str, message: str) -> None:
    """The error quotes the line, or the edge without a target."""
    with pytest.raises(TopologyError) as caught:
        parse_description(text)
    assert message == caught.value.message
