"""Data that strangers may write: markup, scripts, links, formulas, controls of terminals, marks of direction."""

from __future__ import annotations

from typing import Any

import kstreamnb as ks
from kstreamnb import course
from kstreamnb.display.parser import parse_description
from tests.displays import builder, displays, widgets

_ESCAPE, _BELL = chr(27), chr(7)
ATTACKS = (
    "<script>window.hurt=1</script>",
    "\"><img src=x onerror='window.hurt=1'>",
    "'><svg onload=\"window.hurt=1\"><image href='http://evil.example/x'/>",
    "</style></title></desc></svg></pre></textarea></table><script>window.hurt=1</script>",
    "]]><!-- --><script>window.hurt=1</script><iframe srcdoc='<script>parent.hurt=1</script>'>",
    '<a href="javascript:window.hurt=1">here</a><base href="http://evil.example/">',
    "javascript:window.hurt=1",
    "![x](http://evil.example/x.png) [x](javascript:window.hurt=1)",
    "$\\href{javascript:window.hurt=1}{x}$ \\(x\\) \\[y\\]",
    "url(http://evil.example/x) @import 'http://evil.example/x'; } * { color: red",
    '\\N \\G \\" <<b>bold</b>> #quot; %% click a href "javascript:window.hurt=1"',
    "`${window.hurt=1}` {{constructor.constructor('window.hurt=1')()}}",
    f"{_ESCAPE}]52;c;aGk={_BELL}{_ESCAPE}]0;title{_BELL}{_ESCAPE}[2J{chr(0x9B)}31m{chr(8)}{chr(13)}\n\x00",
    "access\u202e\u2066 reversed\u2069\u200b\u2028\ufeff\U000e0041",
    "\ud800 lone \udfff",
    "__proto__",
    "=cmd|'/c calc'!A0",
    'a"""+__import__("os").system("true")+r"""b',
    "'\"\\{}[]#%s%(x)s{0}{x!r}",
    "k" + "@0/1" * 2_000,  # keys within windows within windows
    "k@" + "9" * 5_000 + "/1",
)


def sample() -> ks.Sample:
    """Orders and parcels of strangers, with one late record; also topics, names of fields, headers and notes are."""
    records: list[tuple[Any, ...]] = []
    for at, text in enumerate(text for text in ATTACKS if "\ud800" not in text):  # which no topic can hold
        order = {"who": text, "pieces": at, "note": text, text: [text, {text: text}]}
        headers = ((text, text.encode()),)
        records.append(("orders", 0, at, 7_200_000 * (at % 3), text, order, headers))
        records.append(("parcels", 0, at, 7_200_000 * (at % 3), text, {"weight": text}))
    return ks.Sample.from_records(records, note="; ".join(ATTACKS))


def foreign() -> ks.Sample:
    """Records of topics that no broker would create."""
    records = [(text, 0, 0, 0, text, text) for text in ATTACKS]
    return ks.Sample.from_records(records, note=ATTACKS[12])


def hostile_displays() -> dict[str, Any]:
    """Every display over hostile data, and those of names that strangers chose."""
    made = builder(sample())
    topology = named(ATTACKS[:-2])
    return {
        **displays(made),
        "foreign records": foreign(),
        "description of foreign records": foreign().describe(),
        "statistics of foreign records": foreign().statistics(),
        "foreign topology": topology,
        "foreign description": parse_description(described()),
        "foreign driver": ks.TopologyTestDriver(topology),
        "foreign answer": course.check("count.1", [(text, text) for text in ATTACKS]),
        "foreign settings": ks.config_report({"consumer." + ATTACKS[0]: ATTACKS[1], "application.id": "shop"}),
        "foreign replay": ks.replay(topology, ks.Sample.from_records([("in", 0, 0, 0, ATTACKS[0], ATTACKS[0])])),
    }


def hostile_widgets() -> dict[str, Any]:
    """Every widget over hostile data, and those of names that strangers chose."""
    topology = named(ATTACKS[:-2])
    return {
        **widgets(builder(sample())),
        "foreign explorer": ks.widgets.explorer(topology),
        "foreign browser": ks.widgets.browse(foreign()),
        "foreign editor": ks.widgets.edit(foreign()),
    }


class Passing(ks.Processor):
    """Passes each record on, and keeps it in every store that it is connected to."""

    def init(self, context: ks.ProcessorContext) -> None:
        """Keep the context."""
        self.context = context

    def process(self, record: ks.Record) -> None:
        """Forward the record."""
        self.context.forward(record)


def named(names: tuple[str, ...]) -> ks.Topology:
    """Return a topology whose nodes, stores and topics have hostile names."""
    topology = ks.Topology(names[0]).add_source("in", "in")
    for at, name in enumerate(names):
        topology.add_processor(f"{at} {name}", Passing, "in")
        topology.add_state_store(ks.Stores.in_memory_key_value_store(f"store {name}"), f"{at} {name}")
        topology.add_sink(f"{at} out {name}", f"out {name}", f"{at} {name}")
    return topology


def described() -> str:
    """Return the text of a description whose names are hostile, as another program could print it."""
    lines = ["Topologies:", "   Sub-topology: 0"]
    for at, text in enumerate(" ".join(attack.split()) for attack in ATTACKS):
        name = "".join(text.splitlines()).replace(", ", ",")
        lines += [f"    Source: {at}{name} (topics: {name})", f"      --> {at}out"]
        lines += [f"    Sink: {at}out (topic: {name})", f"      <-- {at}{name}"]
    return "\n".join(lines)
