"""The verbs of ``%ks``, and the script exported from a notebook."""

from __future__ import annotations

import json
import os
import pickle
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
from IPython.core.completer import provisionalcompleter
from IPython.core.error import UsageError

import kstreamnb as ks
from kstreamnb.errors import ConfigError, TopologyError
from kstreamnb.masking import masked
from kstreamnb.notebook.secrets import from_environment
from tests.notebook.shells import Shell, loaded_shell

_SAMPLE = 'builder.sample = ks.Sample.from_text("topic | key | value | time \\n text | a | \\"to be\\" | 5")'


@pytest.fixture
def shell() -> Iterator[Shell]:
    with loaded_shell() as made:
        made.run('builder = ks.StreamsBuilder("app")', "make")
        made.run(_SAMPLE, "sample")
        made.run("def split(text):\n    return text.split()", "split")
        made.run('words = builder.stream("text").flat_map_values(split)\nwords', "words")
        made.run('words.group_by(lambda key, word: word).count(store="counts").to_stream().to("out")', "count")
        made.run("unused = 1 / 3", "unused")
        yield made


def test_every_verb_has_help(shell: Shell) -> None:
    """`%ks help` lists the verbs with a sentence, `%ks help <verb>` its arguments."""
    verbs = (
        "graph describe head pipe replay step capture deploy status stop reset export save_regression logs traceback"
    )
    lines = shell.run("%ks help").splitlines()
    assert verbs.split() == [line.split()[1] for line in lines]
    assert (
        "%ks graph            Draw a topology, a builder's topology, or the part upstream of a stream or table."
        == lines[0]
    )
    assert "--partitions" in shell.run("%ks help replay")
    asked = shell.ip.object_inspect("%ks")["docstring"]  # as `%ks?` does
    assert all(line in asked for line in lines)


def test_an_unknown_verb_names_those_there_are(shell: Shell) -> None:
    """The error is a usage error."""
    with pytest.raises(UsageError, match='no verb "grpah"; the verbs are graph'):
        shell.ip.run_line_magic("ks", "grpah words")


def test_describe_prints_what_kafka_streams_prints(shell: Shell) -> None:
    """The text of the builder's topology."""
    assert str(shell.value("builder").build().describe()) == shell.run("%ks describe builder")


def test_head_shows_the_first_records(shell: Shell) -> None:
    """As many records of the builder's sample as requested."""
    assert "1 of 2 records, from 1 input record" in shell.run("%ks head words -n 1")


def test_pipe_replays_the_records_of_its_cell(shell: Shell) -> None:
    """The replay is the result, and its steps can be walked."""
    shown = shell.run("%%ks pipe builder\ntopic | key | value\ntext | a | hello")
    assert "1 record in, 1 out, 0 dropped" in shown
    shell.run("replayed = list(Out.values())[-1]")  # not `_`, which IPython leaves alone if builtins has one
    shell.run("%ks step replayed -1")
    assert len(shell.value("replayed").steps) - 1 == shell.value("replayed").position


def test_replay_counts_records_on_the_edges(shell: Shell) -> None:
    """The picture shows the counts."""
    shell.run("sample = builder.sample")
    assert "topic text (1)" in shell.run("%ks replay builder sample")


def test_an_exported_script_makes_an_equal_topology(shell: Shell, tmp_path: Path) -> None:
    """The script contains the cells that the topology needs and no others; run with python, it prints the same
    fingerprint.
    """
    path = tmp_path / "app.py"
    assert f"{path}: python {path} describes" in shell.run(f"%ks export builder {path}")
    ended = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, check=False)
    topology = shell.value("builder").build()
    assert "" == ended.stderr
    assert f"{topology.describe()}fingerprint: {topology.fingerprint()}\n" == ended.stdout
    assert "unused" not in path.read_text()


def test_secrets_of_cells_are_not_in_the_script(shell: Shell, tmp_path: Path) -> None:
    """Secrets come from the environment; similar data is kept, and the topology is equal."""
    shell.run(
        'word = password = "hunter2"\n'
        'servers = dict({"sasl.password": "hunter2", "tokens": "the"}, ssl_key_password="hunter2")\n'
        'servers["ssl.key.pem"] = "hunter2"\nkept = words.filter(lambda key, word: word != servers["tokens"])\n'
        'kept.to("kept")\nquery = lambda: ks.deploy(builder, bootstrap_servers={"sasl.jaas.config": "hunter2"})',
        "secrets",
    )
    shell.run(f"%ks export builder {tmp_path}/app.py")
    script = (tmp_path / "app.py").read_text()
    assert "hunter2" not in script
    assert '"tokens": "the"' in script
    names = ["PASSWORD", "SASL_PASSWORD", "SSL_KEY_PASSWORD", "SSL_KEY_PEM", "SASL_JAAS_CONFIG"]
    assert f"It reads {', '.join(names)} from the environment." in script.splitlines()[0]
    ended = subprocess.run(
        [sys.executable, f"{tmp_path}/app.py"],
        env={**os.environ, **dict.fromkeys(names, "x")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert f"fingerprint: {shell.value('builder').build().fingerprint()}\n" in ended.stdout, ended.stderr


@pytest.mark.parametrize(
    "name",
    ["sasl.password", "ssl.key.pem", "basic.auth.user.info", "sasl.oauthbearer.config", "sasl.jaas.config"],
)
def test_what_displays_mask_is_hidden_in_scripts_too(name: str) -> None:
    """A setting is a secret in the script and in displays, or in neither."""
    for setting, secret in ((name, True), ("client.id", False)):
        text, names = from_environment(f"settings = {{{setting!r}: 'hush'}}")
        assert secret == ("hush" not in text) == ("***" in masked({setting: "hush"}).values())
        assert ((setting.upper().replace(".", "_"),) if secret else ()) == names


def test_cells_that_were_timed_or_captured_are_in_the_script(shell: Shell, tmp_path: Path) -> None:
    """Their statements are exported without the magic: the fingerprint is equal."""
    shell.run("%%time\nlong = words.filter(lambda key, word: len(word) > 3)", "long")
    shell.run('%%capture\nlong.to("long")', "long out")
    shell.run('%time words.to("copies")', "copies")
    shell.run(f"%ks export builder {tmp_path}/app.py")
    ended = subprocess.run([sys.executable, f"{tmp_path}/app.py"], capture_output=True, text=True, check=False)
    assert f"fingerprint: {shell.value('builder').build().fingerprint()}\n" in ended.stdout, ended.stderr


def test_a_replay_takes_the_builders_sample(shell: Shell) -> None:
    """As previews do, and a topology takes that of the builder that built it; without one the error says what to do."""
    assert "1 record in, 2 out, 0 dropped" in shell.run("%ks replay builder")
    assert "1 record in, 2 out, 0 dropped" in shell.run("ks.replay(builder.build())")
    shell.run("built = builder.build()")
    assert "1 record in, 2 out, 0 dropped" in shell.run("%ks replay built")
    shell.run("builder.sample = None")
    with pytest.raises(ConfigError, match="no sample was given") as refused:
        shell.ip.run_line_magic("ks", "replay builder")
    assert refused.value.hint == "write replay(topology, sample), or set builder.sample"


def test_verbs_are_completed_and_attributes_are_taken(shell: Shell) -> None:
    """``%ks he`` offers head, ``%ks head wo`` the variable; a sample may be ``builder.sample``."""
    with provisionalcompleter():
        offered = {
            line: [each.text for each in shell.ip.Completer.completions(line, len(line))]
            for line in ("%ks ", "%ks he", "%ks head wo", "%ks head ")
        }
    assert ["graph", "describe", "head"] == offered["%ks "][:3]
    assert "and" not in offered["%ks "]  # "%" is an operator, too
    assert ["head", "help"] == offered["%ks he"]
    assert ["words"] == offered["%ks head wo"]
    assert "graph" not in offered["%ks head "]
    assert "from 1 input record" in shell.run("%ks head words builder.sample")
    with pytest.raises(UsageError, match='no variable is named "nobody"'):
        shell.ip.run_line_magic("ks", "head words nobody.sample")


def test_an_exported_script_keeps_the_authors_text(shell: Shell, tmp_path: Path) -> None:
    """Comments, layout, tables and decorators stay; magics, displays and their comments go."""
    table = 'more = ks.Sample.from_text("""\n    topic | key | value\n    text  | a   | é\n""")  # as measured'
    function = "@functools.cache\ndef short(word):  # ≤ 3 letters\n    return len(word) <= 3\n"
    call = "brief = (\n    words\n    # the short ones\n    .filter(lambda key, word: short(word))\n)"
    shell.run(f"import functools\n\n{table}\n\n{function}\n{call}\nbuilder.sample = more", "text")
    shell.run('brief.to("brief"); brief  # look\nbrief.head()  # and look\n%ks graph builder\n# the end', "shown")
    shell.run(f"%ks export builder {tmp_path}/new/app.py")
    script = (tmp_path / "new" / "app.py").read_text(encoding="utf-8")
    for part in (table, function, call, 'brief.to("brief")  # look\n# the end'):
        assert part in script, script[:900]
    for part in ("head", "%ks", "get_ipython"):
        assert part not in script
    ended = subprocess.run([sys.executable, f"{tmp_path}/new/app.py"], capture_output=True, text=True, check=False)
    assert f"fingerprint: {shell.value('builder').build().fingerprint()}\n" in ended.stdout, ended.stderr


def test_the_saved_notebook_holds_the_cells_as_they_ran_last(shell: Shell, tmp_path: Path) -> None:
    """Edited cells keep their position, with their latest text."""
    shell.run("unused = 2", "unused")
    latest = [cell.source for cell in shell.ip.kstreamnb_cells.latest()]
    assert "unused = 2" == latest[-1]
    assert "unused = 1 / 3" not in latest


def test_saved_cells_are_in_the_order_of_the_notebook(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Known from the file that the server names, or from a renamed one among the newest beside it, whose cells have the
    same ids; a cell that is not saved yet follows the one that ran before it.
    """
    for cell in ("third", "first", "new", "second"):
        shell.run(f"{cell} = 1", cell)
    shell.run("second = 2", "second")
    saved = [{"id": cell, "source": [f"{cell} = 1"]} for cell in ("first", "second", "third")]
    (tmp_path / "open.ipynb").write_text(json.dumps({"cells": saved}))
    monkeypatch.setenv("JPY_SESSION_NAME", str(tmp_path / "open.ipynb"))
    in_order = ["first = 1", "new = 1", "second = 2", "third = 1"]
    assert in_order == [cell.source for cell in shell.ip.kstreamnb_cells.latest()][-4:]
    (tmp_path / "open.ipynb").rename(tmp_path / "renamed.ipynb")
    (tmp_path / "open.ipynb").write_text(json.dumps({"cells": [{"id": "other", "source": "third = 1"}]}))
    for number, text in enumerate(("{", "[]", '{"cells": null}', '{"cells": "none"}')):
        (tmp_path / f"broken{number}.ipynb").write_text(text)
    (tmp_path / "moved.ipynb").symlink_to("elsewhere.ipynb")
    assert in_order == [cell.source for cell in shell.ip.kstreamnb_cells.latest()][-4:]
    for number in range(10):
        (tmp_path / f"newer{number}.ipynb").write_text("{}")
    assert in_order != [cell.source for cell in shell.ip.kstreamnb_cells.latest()][-4:]


@pytest.mark.notebook
def test_a_saved_regression_runs_anywhere(shell: Shell, tmp_path: Path) -> None:
    """`%ks save_regression` writes a notebook with outputs that nbval accepts."""
    from kstreamnb.notebook.regression import check

    path = tmp_path / "saved.ipynb"
    shell.run("def start():\n    return ks.deploy(builder.build(), checkpoint='there')", "deploy")
    assert "1 cell left out: needing Spark or Kafka" in shell.run("%ks save_regression " + str(path))
    shell.run("1 / 0", "wrong")
    assert "1 cell left out after an error" in shell.run("%ks save_regression " + str(path))
    assert "deploy" not in path.read_text()
    assert any(cell["outputs"] for cell in json.loads(path.read_text())["cells"])
    check(tmp_path)


@pytest.mark.notebook
def test_a_regression_without_a_suffix_is_a_notebook(shell: Shell, tmp_path: Path) -> None:
    """The plugin nbval finds notebooks by their suffix alone; a folder that does not exist is made."""
    assert "reg2.ipynb: " in shell.run(f"%ks save_regression {tmp_path / 'tests' / 'reg2'}")
    assert ["reg2.ipynb"] == [path.name for path in (tmp_path / "tests").iterdir()]


def test_a_verb_shows_its_arguments(shell: Shell) -> None:
    """As programs do, with -h or --help."""
    assert shell.run("%ks help save_regression") == shell.run("%ks save_regression -h")
    assert "the file to write" in shell.run("%ks save_regression --help")


@pytest.mark.notebook
def test_what_was_captured_stays_in_the_saved_regression(shell: Shell, tmp_path: Path) -> None:
    """A small capture becomes text in its cell, a larger one a file with its hash; cells that need the broker are left
    out.
    """
    from kstreamnb.errors import EngineError
    from kstreamnb.notebook.regression import check

    shell.run(
        "few, many = builder.sample, ks.Sample.from_records([('text', 0, n, n, 'a', 'to be') for n in range(99)])"
    )
    shell.run("import math\norders = few  # as capture() gave it\nbuilder.sample = many", "capture")
    shell.run("broker = orders.topics  # ks.kafka.local_broker() would be one", "broker")
    shell.run("where = broker[0]", "where")
    shell.run("ks.replay(builder.build(), orders + builder.sample), math.pi", "replay")
    path = tmp_path / "saved.ipynb"
    said = shell.run(f"%ks save_regression {path}").splitlines()
    assert [
        "3 cells left out: needing Spark or Kafka",
        'sample "orders": 1 record kept as text',
        'sample "builder.sample": 99 records kept in "saved.builder-sample.jsonl"',
        "saved.ipynb: 10 cells and their outputs, as the reference of pytest --nbval",
    ] == said
    cells = ["".join(cell["source"]) for cell in json.loads(path.read_text())["cells"]]
    assert not [cell for cell in cells if "broker" in cell]
    assert "topic | key | value | time" in (
        text := next(cell for cell in cells if "from_text" in cell and "orders" in cell)
    )
    assert "import math" in text
    assert "100 records in" in path.read_text()
    check(tmp_path)
    file = tmp_path / "saved.builder-sample.jsonl"
    file.write_text(file.read_text().replace("to be", "not to be", 1))
    with pytest.raises(EngineError, match="differs"):
        check(tmp_path)


def test_what_users_wrote_is_shown_as_text(shell: Shell) -> None:
    """A key with markup is escaped in HTML and in SVG."""
    shell.run('builder.sample = ks.Sample.from_records([("text", 0, 0, 0, "<script>x()</script>", "<b>bold</b>")])')
    shell.run("import IPython")
    bundle, _ = shell.ip.display_formatter.format(shell.value("words"))
    assert "<script>x()" in bundle["text/plain"]
    assert "<script" not in bundle["text/html"]
    assert "<b>bold" not in bundle["text/html"]


def test_a_handle_says_what_changed_since_its_cell_ran_last(shell: Shell) -> None:
    """New nodes are marked, removed ones named."""
    shown = shell.run('words = builder.stream("text").filter(print).flat_map_values(split)\nwords', "words")
    assert "new" in shown
    shown = shell.run('words = builder.stream("text").flat_map_values(split)\nwords', "words")
    assert "gone since the last run: filter" in shown


def test_a_preview_that_fails_names_the_node_and_the_cause(shell: Shell) -> None:
    """The user's exception is shown with its text, not only its type."""
    shown = shell.run('words.map_values(lambda word: {}["missing"])')
    assert """ProcessingError: KeyError 'missing' at text-0@0 key "a" value "to be"\n""" in shown


def test_a_failure_names_its_record_and_folds_the_text_of_kafka_streams(shell: Shell) -> None:
    """The notebook shows the values; the error's own text, which logs keep, does not, nor does a pickled error."""
    broken = """broken = words.map_values(lambda word: {"m": 1}["n"])\nbroken.to("broken")\nbroken"""
    shown = shell.run(broken, "broken")
    assert """KeyError 'n' at text-0@0 key "a" value "to be"\nNode: "KSTREAM-MAPVALUES-0000000""" in shown
    assert "Kafka Streams says" not in shown
    bundle, _ = shell.ip.display_formatter.format(shell.value("broken"))
    assert "<details><summary>Kafka Streams says</summary>Exception caught in process." in bundle["text/html"]
    raised = shell.run("ks.replay(builder.build())")
    assert """ProcessingError: KeyError 'n' at text-0@0 key "a" value "to be"\n""" in raised
    assert "Exception caught in process" not in raised
    assert "Kafka Streams says: Exception caught in process." in shell.run("%ks traceback")
    error, shell.ip.kstreamnb_error.replay = shell.ip.kstreamnb_error, None  # a replay holds the lambdas
    assert error.record == ("a", "to be")
    assert "to be" not in "".join([str(error), *error.__notes__])
    assert pickle.loads(pickle.dumps(error)).record is None


def test_a_topology_that_writes_nothing_says_so(shell: Shell) -> None:
    """Its picture, a replay, a check and a deployment name the missing step; stores and effects count as results."""
    shell.run('lone = ks.StreamsBuilder("lone")\nlone.sample = builder.sample\ntexts = lone.stream("text")')
    shell.run("short = texts.filter(lambda key, text: len(text) < 9)")
    sentence = 'nothing is written: end a stream with `.to("topic")`'
    replayed = shell.run("ks.replay(lone.build())")
    assert f"step 1 of 1; {sentence}" in replayed
    assert replayed.count(sentence) == 1
    assert f"1 topic\n{sentence}\n" in shell.run("lone.build()")
    assert sentence.replace('"', "&quot;") in shell.value("lone").build().to_svg()
    assert sentence not in shell.run("short") + shell.run("lone")  # still being built
    assert "nothing is written" in shell.run("ks.testing.check(lone.build())")
    with pytest.raises(TopologyError, match="nothing is written"):
        ks.deploy(shell.value("lone").build(), checkpoint="nowhere", bootstrap_servers="localhost:1")
    for end in ("short.foreach(print)", 'short.group_by_key().count(store="n")', 'short.to("short")'):
        shell.run(end, "end")
        assert shell.value("lone").build().unwritten is None, end
    shell.run("short.repartition()", "end")
    assert shell.value("lone").build().unwritten == sentence


def offered(shell: Shell, text: str) -> list[str]:
    """Return what Tab offers after a text."""
    with provisionalcompleter():
        return [each.text for each in shell.ip.Completer.completions(text, len(text))]


@pytest.mark.parametrize("jedi", [True, False])
def test_operators_are_completed_first(
    shell: Shell, jedi: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The usual next ones, then the others by name, then attributes; the names of other values as ever."""
    monkeypatch.setattr("jedi.settings.cache_directory", str(tmp_path))  # without a writable one, Jedi finds nothing
    shell.ip.Completer.use_jedi = jedi
    names = offered(shell, "x = words.")
    assert ["filter", "map_values", "group_by_key", "join", "to", "filter_not", "flat_map"] == names[:7]
    assert names.index("to_table") < names.index("declaration")
    assert ["map_values", "map", "merge"] == offered(shell, "words.m")
    assert ["stream", "table", "global_table", "build", "sample"] == offered(shell, "builder.")[:5]
    assert "upper" in offered(shell, "split.__name__.up")[0]
    declared = len(shell.value("builder").declaration_log.declarations())
    assert names[:7] == offered(shell, 'builder.stream("x").')[:7]
    assert ["map_values", "map", "merge"] == offered(shell, "y = f(words.filter(lambda key, value: (key, value.b)).m")
    assert ["count", "reduce", "aggregate"] == offered(shell, "words.group_by_key().")[:3]
    assert declared == len(shell.value("builder").declaration_log.declarations()), "completing declares nothing"
    shell.run("%unload_ext kstreamnb")
    assert "filter" not in offered(shell, "x = words.")[0]


def test_completing_names_of_the_package_imports_none_of_them() -> None:
    """Jedi looks at every name, and so loaded Spark: JupyterLab waits one second, and showed nothing the first time."""
    code = """
        import sys
        from tests.notebook.test_magics import offered
        from tests.notebook.shells import loaded_shell
        with loaded_shell() as shell:
            assert offered(shell, "ks.")[:2] == ["AggregationWithHeaders", "Branched"], offered(shell, "ks.")
            assert offered(shell, "ks.Ser") == ["Serde", "Serdes"]
            assert offered(shell, "ks.TimeWindows.of") == ["of", "of_size_and_grace", "of_size_with_no_grace"]
            assert offered(shell, "ks.testing.assert_") == ["assert_outputs_equal", "assert_topology_equal"]
        print([name for name in ("pyspark", "confluent_kafka") if name in sys.modules])
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("[]\n", 0), done.stderr


def test_completing_computes_no_property_of_the_user(shell: Shell) -> None:
    """Jedi does, but it can be switched off; of the kit's own objects, properties are read."""
    shell.ip.Completer.use_jedi = False
    shell.run("class Slow:\n    @property\n    def builder(self): self.seen = True\nslow = Slow()")
    offered(shell, "slow.builder.st")
    assert vars(shell.value("slow")) == {}


def test_help_about_the_package_is_its_overview(shell: Shell) -> None:
    """A notebook has no pager: Python's own help would fill it with thousands of lines about every class."""
    for subject in ("ks", "'kstreamnb'"):
        told = shell.run(f"help({subject})")
        assert told.startswith("Kafka Streams for notebooks")
        assert len(told.splitlines()) < 60
    assert "Help on method stream in module kstreamnb.dsl.builder" in shell.run("help(builder.stream)")
    shell.run("%unload_ext kstreamnb")
    assert "'_sitebuiltins'" in shell.run("type(help).__module__")


def test_a_stale_handle_is_shown_with_the_reason(shell: Shell) -> None:
    """Displaying never fails: the error is shown instead of the picture."""
    shell.run("counted = words.group_by_key().count()", "more")
    shell.run("words = 1", "words")
    assert "is stale" in shell.run("counted")


def test_names_of_parameters_do_not_bring_cells_into_an_exported_script(shell: Shell, tmp_path: Path) -> None:
    """Only names that a cell reads from the notebook count."""
    shell.run("transaction = 5\nprint(transaction)", "elsewhere")
    shell.run("def risk(transaction):\n    return [transaction for transaction in [transaction]]", "risk")
    shell.run('words.map_values(risk).to("risks")', "risks")
    shell.run(f"%ks export builder {tmp_path}/app.py")
    assert "transaction = 5" not in (tmp_path / "app.py").read_text()
    assert "def risk" in (tmp_path / "app.py").read_text()


@pytest.mark.parametrize(
    ("call", "hint"),
    [
        ('ks.Record("k", "v", 0).headers.add("trace", b"1")', "headers are pairs of a name and bytes: read dict("),
        ('ks.TopicRecord("t", 0, 0, 5, "k", "v").value()', "value is an attribute: write it without ()"),
        ('ks.StreamsBuilder().stream("t", Consumed.with_("string", "string"))', "write ks.Consumed, after"),
        ('print(KeyValue.pair("k", 1))', "write a pair as a tuple: (key, value)"),
        ("window = Duration.ofMinutes(5)", 'write a duration as a string such as "5s", or as a timedelta'),
        ("ks.Serdes.string().serializer()", "a serde is both"),
    ],
)
def test_a_cell_in_javas_shape_gets_a_hint_below_pythons_error(shell: Shell, call: str, hint: str) -> None:
    """Headers are plain tuples and names may not be imported: the errors are Python's own."""
    assert f"Hint: {hint}" in re.sub(r"\x1b\[[0-9;]*m", "", shell.run(call))


def test_a_cell_with_an_ordinary_mistake_gets_no_hint_about_java(shell: Shell) -> None:
    """Names and attributes that have nothing to do with Kafka Streams."""
    for call in ("[].append()", "(1, 2)()", "{}.headers", "'v'.add(1)"):
        assert "Hint" not in shell.run(call)
