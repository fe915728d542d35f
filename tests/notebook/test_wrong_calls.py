"""Calls with wrong arguments: Python's error is followed by the signature, the next action and an example."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.notebook.shells import Shell, loaded_shell

_MAKE = """
builder = ks.StreamsBuilder("shop")
numbers = builder.stream("numbers", value_serde="long")
numbers.to("out")
topology = builder.build()
sample = ks.Sample.from_text("topic | key | value | time\\nnumbers | a | 1 | 0")
replay = ks.replay(topology, sample)
spark = None
"""
_COLOUR = re.compile(r"\x1b\[[\d;]*m")


@pytest.fixture(scope="module")
def shell() -> Iterator[Shell]:
    with loaded_shell() as made:
        made.run(_MAKE, "make")
        yield made


def _notes(shell: Shell, source: str) -> list[str]:
    """Return what follows Python's own line of the error."""
    lines = _COLOUR.sub("", shell.run(source, source)).strip().split("\n")
    at = next(number for number, line in enumerate(lines) if re.match(r"\w+Error: ", line))
    return lines[at + 1 :]


def test_a_missing_argument_is_explained(shell: Shell) -> None:
    """With the signature, its line of the docstring, the next action and an example in the user's spelling."""
    assert _notes(shell, "ks.deploy(topology)") == [
        "Signature: ks.deploy(topology, *, checkpoint, spark=None, bootstrap_servers=None, config=None, "
        "application_id=None, …)",
        'checkpoint: a folder that all of Spark\'s processes reach, or an address such as "s3a://bucket/shop" that the '
        "session's Hadoop knows; it belongs to this application alone.",
        "Hint: add checkpoint=…",
        "Example: ks.deploy(builder.build(), bootstrap_servers=servers, checkpoint=checkpoint, available_now=True)",
    ]


@pytest.mark.parametrize(
    ("source", "hint"),
    [
        ("counts.head()", "run the cell that defines counts, or all cells above"),
        ("s.head()", "run the cell that defines s, or all cells above"),
        ("print(totals)", "run the cell that defines totals, or all cells above"),
        ("replays.now", 'did you mean "replay"? Otherwise run the cell that defines replays, or all cells above'),
        (
            "deploy(1)",
            'write ks.deploy, after "import kstreamnb as ks". '
            "Otherwise run the cell that defines deploy, or all cells above",
        ),
    ],
)
def test_a_name_of_a_skipped_cell_is_answered_with_what_to_run(shell: Shell, source: str, hint: str) -> None:
    """Also after a restart of the kernel; a name of the kit may be the notebook's own."""
    assert _notes(shell, source) == [f"Hint: {hint}"]


def test_a_missing_argument_of_a_method_is_explained(shell: Shell) -> None:
    """Also at the end of a chain, which is not evaluated again, and across lines."""
    assert _notes(shell, "replay.output()") == [
        "Signature: replay.output(topic)",
        "topic: name of the topic.",
        "Hint: add topic=…",
        'Example: replay.output("large")',
    ]
    declared = len(shell.value("builder").declarations())
    notes = _notes(shell, '(\n    builder.stream("more")\n    .map_values(str)\n    .filter(  # large ones\n    )\n)')
    assert notes[:3] == [
        "Signature: filter(predicate, name=None)",
        "predicate: function (key, value); a true result keeps the record.",
        "Hint: add predicate=…",
    ]
    assert len(shell.value("builder").declarations()) == declared + 2
    shell.run("builder.forget()", "forget")


def test_an_argument_without_its_name_is_explained(shell: Shell) -> None:
    """A variable that is called like a parameter is offered as it; otherwise the names are listed."""
    assert "Hint: write spark=spark; add inputs=…" in _notes(shell, "ks.run(topology, spark)")
    hint = "Hint: pass True by name: with_key=…"
    assert hint in _notes(shell, 'numbers.map_values(lambda value: 2 * value, "double", True)')
    assert "Hint: leave out 3" in _notes(shell, 'replay.output("out", 3)')
    call = 'ks.Sample.from_dataframe(replay, "orders", timestamp="at")'
    notes = _notes(shell, call)  # its call needs an extra
    assert "contextlib" not in shell.run(call, call)
    assert notes[0].startswith("Signature: ks.Sample.from_dataframe(frame, *, topic, timestamp, key=None")
    assert "Hint: pass 'orders' by name: topic=…, timestamp=…, key=…; add topic=…" in notes


def test_an_unknown_name_is_explained(shell: Shell) -> None:
    """By the nearest parameter, or by leaving it out."""
    assert 'Hint: did you mean "name"?' in _notes(shell, 'numbers.map_values(str, named="text")')
    assert "Hint: leave out colour=…" in _notes(shell, 'replay.output("out", colour=3)')


def test_a_class_is_explained_like_a_function(shell: Shell) -> None:
    """Constructors and their factories; windows are made by their factory, which takes durations."""
    assert "Signature: ks.Record(key, value, timestamp, headers=())" in _notes(shell, "ks.Record('a', 1)")
    example = 'Example: ks.TimeWindows.of(size="10s", advance="5s")'
    assert _notes(shell, "ks.TimeWindows()") == ["Hint: write ks.TimeWindows.of(…)", example]
    assert 'Example: ks.TimeWindows.of(size="10s", advance="5s")' in _notes(shell, "ks.TimeWindows.of()")


def test_a_call_inside_a_users_function_is_explained(shell: Shell) -> None:
    """There the variables are the function's."""
    source = "def double(stream):\n    return stream.map_values()\ndouble(numbers)"
    assert "Signature: stream.map_values(mapper, name=None, *, with_key=False)" in _notes(shell, source)


def test_arguments_from_a_list_or_a_dict_are_explained_one_by_one(shell: Shell) -> None:
    """``*args`` and ``**options`` are counted by their elements, and named as the user would write them."""
    shell.run('both, options = (topology, spark), {"imputs": {}, "partitions": 4}', "variables")
    assert "Hint: pass both[1] by name: inputs=…, spark=…, config=…; add inputs=…" in _notes(shell, "ks.run(*both)")
    assert "Hint: write spark=spark; add inputs=…" in _notes(shell, "ks.run(*[topology, spark])")
    hint = next(note for note in _notes(shell, "ks.run(topology, **options)") if note.startswith("Hint: "))
    assert hint == 'Hint: did you mean "inputs"?'
    assert "Hint: add checkpoint=…" in _notes(shell, "def start(*args):\n    ks.deploy(*args)\nstart(topology)")


@pytest.mark.parametrize("source", ["replay.output(*map(str, []))", "ks.deploy(topology, **dict())"])
def test_elements_that_only_a_call_would_tell_are_not_guessed(shell: Shell, source: str) -> None:
    """Nothing is called a second time: Python's own error stays as it is."""
    assert _notes(shell, source) == []


@pytest.mark.parametrize(
    ("source", "hint"),
    [
        ('numbers.to_table(ks.Materialized.as("s"))', "as is a keyword of Python: write as_(…)"),
        ('builder.stream("in", ks.Consumed.with(a, b))', "with is a keyword of Python: write with_(…)"),
        ("streams = new KafkaStreams(topology, props)", "ks.deploy(topology, …) runs it on Spark, "),
        ("builder = new StreamsBuilder()", "leave out new: write StreamsBuilder(…)"),
        ("numbers.filter((key, value) -> value > 3)", "write a function as lambda key, value: …"),
        ('numbers.process(Watch::new, "store")', "pass the function or class itself, or a lambda"),
        ('KStream<String, Long> more = builder.stream("more")', "leave out the type: more = …"),
        ("from kstreamnb import KeyValue", "write a pair as a tuple: (key, value)"),
        ('ks.Record("k", "v", 0).headers.add("trace", b"1")', "headers are pairs of a name and bytes"),
        ("ks.TimeWindows.of(Duration.ofMinutes(5))", 'write a duration as a string such as "5s"'),
    ],
)
def test_javas_syntax_and_names_get_a_hint(shell: Shell, source: str, hint: str) -> None:
    """After Python's own message, once."""
    (note,) = _notes(shell, source)
    assert note.startswith(f"Hint: {hint}")


@pytest.mark.parametrize(
    "source",
    [
        "def length(text) -> int\n    return len(text)",
        "total = (1",
        "def deploy(topology):\n    return topology\ndeploy()",
        "class Mine:\n    def output(self, topic):\n        return topic\nMine().output()",
        'def first(a, b):\n    return a\nks.testing.unknown = first\nks.Sample.from_text(first("x"))',
        "int('1', base='2', more=3)",
        "sorted()",
        "None()",
    ],
)
def test_an_error_of_the_users_function_stays_as_it_is(shell: Shell, source: str) -> None:
    """Also if it is called like one of the kit's."""
    assert _notes(shell, source) == []


def test_an_error_inside_a_function_that_the_kit_calls_stays_as_it_is(shell: Shell) -> None:
    """The user's call of the kit fits; what fails is the call in the user's function."""
    shell.run('broken = ks.StreamsBuilder("broken")\nbroken.stream("numbers").map_values(lambda v: len()).to("o")', "b")
    shown = _COLOUR.sub("", shell.run("ks.replay(broken.build(), sample)", "run"))
    assert "len() takes exactly one argument" in shown
    assert "Signature" not in shown
