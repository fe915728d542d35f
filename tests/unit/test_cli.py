"""The command line: applications, pictures, replays, and actionable errors."""

from __future__ import annotations

import inspect
import os
import signal
import subprocess
import sys

import click
import pytest
from click.testing import CliRunner

from kstreamnb import cli
from kstreamnb.cli import main
from kstreamnb.samples import Sample
from kstreamnb.spark.deploy import deploy
from tests.command_line import handlers_restored

APP = """
import kstreamnb as ks

builder = ks.StreamsBuilder("doubles")
builder.stream("in").map_values(lambda v: v * 2).to("out")


def topology():
    return builder.build()
"""
TABLE = "topic | key | value | time\nin | a | 1 | 0\nin | b | 2 | 5\n"


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Runs a command in a folder with an application and a sample."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("PYTHONPATH", os.environ.get("PYTHONPATH", ""))
    (tmp_path / "app_of_test.py").write_text(APP)
    (tmp_path / "two_apps.py").write_text(APP + "\nother, third = topology(), topology()\n")
    (tmp_path / "sample.md").write_text(TABLE)
    for ending in ("md", "txt", "csv", "ipynb"):
        (tmp_path / f"latin.{ending}").write_bytes("Zürich".encode("latin-1"))
    (tmp_path / "object.ipynb").write_text("{}")
    (tmp_path / "empty").mkdir()

    def invoke(*arguments, **options):
        with handlers_restored():
            return CliRunner().invoke(main, list(arguments), **options)

    return invoke


def test_an_application_is_described_from_its_file_or_module(run):
    """File or module, with a name or with the only topology in it; a function may return one too."""
    first = run("describe", "app_of_test.py")
    assert 0 == first.exit_code
    assert first.output.startswith("Topologies:\n   Sub-topology: 0\n    Source: KSTREAM-SOURCE-0000000000")
    for other in ("app_of_test.py:topology", "app_of_test.py:builder", "app_of_test:topology"):
        assert first.output == run("describe", other).output


def test_a_topology_goes_before_the_builder_that_has_built_it(run, tmp_path):
    """A module as in the guide has both names."""
    (tmp_path / "both_names.py").write_text(APP + "\nbuilt = builder.build()\n")
    assert run("describe", "app_of_test.py").output == run("describe", "both_names.py").output


def test_an_application_finds_the_modules_beside_it(run, tmp_path, monkeypatch):
    """From every current folder, as with ``python file.py``; processes that are started from here find them, too."""
    monkeypatch.setenv("PYTHONPATH", "elsewhere")
    (tmp_path / "apps").mkdir()
    (tmp_path / "apps" / "numbers_beside.py").write_text("FACTOR = 2\n")
    (tmp_path / "apps" / "importing.py").write_text(f"from numbers_beside import FACTOR\n{APP}")
    assert run("describe", "app_of_test.py").output == run("describe", "apps/importing.py").output
    paths = os.environ["PYTHONPATH"].split(os.pathsep)
    assert (str(tmp_path / "apps"), "elsewhere") == (paths[0], paths[-1])


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("x = (", '  File "{file}", line 1\n    x = (\n        ^\nSyntaxError: '),
        ("import no_such_module", 'Traceback (most recent call last):\n  File "{file}", line 1, in <module>\n'),
        (APP.replace("map_values", "map_valuess"), "At: failing.py, line 5: builder.stream"),
    ],
    ids=["syntax", "import", "topology"],
)
def test_a_mistake_in_the_application_is_shown_at_its_line(run, tmp_path, text, shown):
    """Without frames of the command line or of importlib, also if it is named as a module."""
    file = tmp_path / "failing.py"
    file.write_text(text)
    for name in ("failing.py", "failing"):
        sys.modules.pop("failing", None)
        failed = run("describe", name)
        assert 1 == failed.exit_code
        assert shown.format(file=file) in failed.output
        assert "click" not in failed.output
        assert "importlib" not in failed.output


def test_the_package_runs_as_a_module(run):
    """``python -m kstreamnb`` is the same program."""
    command = [sys.executable, "-m", "kstreamnb", "describe", "app_of_test.py"]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert run("describe", "app_of_test.py").output == result.stdout


def test_a_graph_is_drawn_in_every_form(run, tmp_path):
    """Text to the terminal, Mermaid and DOT likewise; to a file if one is named."""
    assert "in" in run("graph", "app_of_test.py").output
    assert run("graph", "app_of_test.py", "--format", "mermaid").output.startswith(("flowchart", "graph"))
    assert 0 == run("graph", "app_of_test.py", "--format", "dot", "-o", "g.dot").exit_code
    assert "digraph" in (tmp_path / "g.dot").read_text()


def test_the_description_of_a_java_application_is_drawn(run, tmp_path):
    """Java's printed description suffices for a picture."""
    (tmp_path / "java.txt").write_text(run("describe", "app_of_test.py").output)
    drawn = run("graph", "java.txt")
    assert 0 == drawn.exit_code
    assert "out" in drawn.output


def test_a_sample_is_replayed(run, tmp_path):
    """Outputs are printed as tables that can be pasted as expectations."""
    result = run("replay", "app_of_test.py", "sample.md")
    assert 0 == result.exit_code, result.output
    table, _, closing = result.output.rpartition("\n\n")
    assert [("out", "a", 2, 0), ("out", "b", 4, 5)] == [
        (record.topic, record.key, record.value, record.timestamp) for record in Sample.from_text(table)
    ]
    assert "2 records in, 2 out\n" == closing
    Sample.from_text(TABLE).to_json_lines(tmp_path / "sample.jsonl")
    assert result.output == run("replay", "app_of_test.py", "sample.jsonl").output
    assert result.output == run("replay", "app_of_test.py", "-", input=TABLE).output
    assert "partition" in run("replay", "app_of_test.py", "sample.md", "--partitions", "3").output


def test_a_replay_has_the_partitions_of_its_sample(run, tmp_path):
    """As `ks.replay` has them; one partition was an error about the next ones."""
    records = [("in", number % 2, number // 2, 0, "a", number) for number in range(4)]
    Sample.from_records(records).to_json_lines(tmp_path / "two.jsonl")
    assert run("replay", "app_of_test.py", "two.jsonl").output.endswith("\n4 records in, 4 out\n")
    assert run("replay", "app_of_test.py", "two.jsonl", "--partitions", "1").output.endswith("\n4 records in, 4 out\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["describe", "nowhere.py"], 'ConfigError: file "nowhere.py" does not exist'),
        (["describe", "no_such_module"], 'ConfigError: module "no_such_module" does not exist'),
        (
            ["describe", "./app_of_test:build"],
            'ConfigError: module "./app_of_test" does not exist\nHint: name a module',
        ),
        (["describe", ""], 'ConfigError: module "" does not exist'),
        (
            ["describe", "two_apps.py"],
            'ConfigError: "two_apps.py" does not have one topology\nDetail: it has other, third',
        ),
        (["describe", "app_of_test.py:ks"], "is not a topology"),
        (["describe", "nowhere.txt"], 'ConfigError: file "nowhere.txt" does not exist'),
        (
            ["replay", "app_of_test.py", "nowhere.jsonl"],
            'ConfigError: file "nowhere.jsonl" does not exist\nHint: name a .parquet or .jsonl file',
        ),
        (["notebook", "check", "empty"], "EngineError: no notebook to check"),
        (["notebook", "check", "latin.ipynb"], 'ConfigError: file "latin.ipynb" is not a notebook\nDetail: '),
        (["notebook", "record", "object.ipynb"], 'ConfigError: file "object.ipynb" is not a notebook\nDetail: '),
        (["replay", "app_of_test.py", "latin.md"], 'ConfigError: file "latin.md" cannot be read\nDetail: '),
        (["describe", "latin.txt"], 'ConfigError: file "latin.txt" cannot be read\nDetail: '),
        (
            ["reset", "--servers", "localhost:9", "--application-id", "a", "--from-file", "latin.csv"],
            'ConfigError: file "latin.csv" cannot be read\nDetail: ',
        ),
        (["reset", "--servers", "localhost:9", "--application-id", "a", "--to-latest"], "need input_topics"),
    ],
)
def test_mistakes_are_told_without_a_traceback(run, arguments, message):
    """The kit's error with its notes, a link to its page in the last line, and exit code 1."""
    result = run(*arguments)
    assert 1 == result.exit_code
    assert message in result.output
    assert result.output.splitlines()[-1].startswith("More: https://kstreamnb.github.io/kstreamnb/errors/")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["replay", "app_of_test.py", "sample.md", "--partitions", "0"], "0 is not in the range x>=1"),
        (["replay", "app_of_test.py", "sample.md", "--config", "num"], '"num" is neither NAME=VALUE nor a file'),
        (["deploy", "app_of_test.py", "--servers", "localhost:9"], "Missing option '--checkpoint'"),
        (["capture", "orders", "-o", "file"], "Missing option '--servers'"),
        (["reset", "--servers", "localhost:9", "--application-id", "a", "--to-latest", "--shift-by", "2"], "only one"),
        (["draw"], "No such command 'draw'"),
        (["graph", "app_of_test.py", "-o", "nowhere/g.svg"], 'folder "nowhere" does not exist'),
        (["capture", "--servers", "localhost:9", "orders", "-o", "nowhere/x.jsonl"], 'folder "nowhere" does not exist'),
    ],
)
def test_a_command_that_is_not_understood_ends_with_2(run, arguments, message):
    """Click's usage errors, before anything is started."""
    result = run(*arguments)
    assert 2 == result.exit_code, result.output
    assert message in result.output


def test_settings_are_read_from_files_in_order(run, tmp_path):
    """Properties like those of a Java application, YAML, and single settings: the last one wins."""
    (tmp_path / "shop.properties").write_text("processing.exception.handler=fail\napplication.id=shop\n")
    (tmp_path / "more.yaml").write_text("processing.exception.handler: continue\n")
    (tmp_path / "failing.py").write_text(APP.replace("v * 2", "v / 0"))
    command = ["replay", "failing.py", "sample.md", "--config", "shop.properties"]
    assert "Cause: ZeroDivisionError" in run(*command).output
    assert "2 records in, 0 out" in run(*command, "--config", "more.yaml").output
    assert "ZeroDivisionError" in run(*command, "--config", "more.yaml", "--config", "processing_handler=fail").output


def test_functions_of_settings_are_named_as_applications_are(run, tmp_path, request):
    """A handler by module, by file, and in a file of settings; a misspelled one is an error with the known names."""
    handlers = "\ndef skip(context, error):\n    return 'continue'\n\ndef broken(context):\n    return 'continue'\n"
    (tmp_path / "skipping.py").write_text(APP.replace("v * 2", "v / 0") + handlers)
    (tmp_path / "shop.properties").write_text("processing.exception.handler=skipping:skip\n")
    request.addfinalizer(lambda: sys.modules.pop("skipping", None))
    command = ["replay", "skipping.py:topology", "sample.md", "--config"]
    assert "Cause: ZeroDivisionError" in run(*command, "processing_handler=fail").output
    for chosen in (
        "processing_handler=skipping:skip",
        "processing.exception.handler=skipping.py:skip",
        "shop.properties",
    ):
        result = run(*command, chosen)
        assert "2 records in, 0 out" in result.output, result.output
    assert 'did you mean "skipping:skip"?' in run(*command, "processing_handler=skipping:skipp").output
    assert "context, error" in run(*command, "processing_handler=skipping:broken").output
    assert 'module "nowhere" does not exist' in run(*command, "processing_handler=nowhere:skip").output


def test_an_operator_may_continue_after_records_that_were_removed_unread(run, monkeypatch):
    """The flag is the argument of `deploy`, and off by default."""
    seen = []

    def refuse(topology, **options):
        seen.append(options["fail_on_loss"])
        raise SystemExit(3)

    monkeypatch.setattr("kstreamnb.spark.deploy.deploy", refuse)
    command = ["deploy", "app_of_test.py:topology", "--servers", "localhost:9", "--checkpoint", "c"]
    for flags in ((), ("--no-fail-on-loss",)):
        assert 3 == run(*command, *flags).exit_code
    assert [True, False] == seen


def test_an_error_of_the_system_is_one_line(run):
    """A full disk, a folder that takes no files."""
    for output, words in (("/dev/full", "No space left on device"), ("/proc/g", "/proc/g: No such file or directory")):
        result = run("graph", "app_of_test.py", "--format", "text", "-o", output)
        assert (1, f"Error: {words}\n") == (result.exit_code, result.output)


def test_one_replayed_record_is_counted_in_the_singular(run, tmp_path):
    """The line is read by people."""
    (tmp_path / "one.md").write_text("topic | key | value\nin | a | 1\n")
    assert run("replay", "app_of_test.py", "one.md").output.endswith("\n1 record in, 1 out\n")


def test_a_store_does_not_show_among_the_outputs(run, tmp_path):
    """Changelogs and repartition topics are the application's own."""
    (tmp_path / "counting.py").write_text(
        APP.replace(".map_values(lambda v: v * 2)", ".group_by_key().count().to_stream()")
    )
    result = run("replay", "counting.py", "sample.md")
    assert 0 == result.exit_code, result.output
    assert "2 records in, 2 out" in result.output
    assert "changelog" not in result.output


def test_every_command_explains_itself(run):
    """Each command has help."""
    for name, command in main.commands.items():
        result = run(name, "--help")
        assert 0 == result.exit_code
        assert " ".join(command.help.split()) in " ".join(result.output.split())
        options = [each for each in command.params if isinstance(each, click.Option)]
        assert [] == [each.name for each in options if not each.help]


def test_a_graph_is_written_in_the_form_that_its_file_ends_in(run, tmp_path):
    """Text was written into a file called .svg."""
    assert 0 == run("graph", "app_of_test.py", "-o", "g.svg").exit_code
    assert (tmp_path / "g.svg").read_text().startswith("<svg")
    refused = run("graph", "app_of_test.py", "-o", "g.png")
    assert 1 == refused.exit_code
    assert 'no form of a drawing ends in ".png"' in refused.output
    assert not (tmp_path / "g.png").exists()


def test_a_module_without_a_topology_is_answered_with_its_functions(run, tmp_path):
    """Its functions without arguments may build one."""
    text = "import kstreamnb as ks\n\ndef small():\n    pass\n\ndef large(limit):\n    pass\n"
    (tmp_path / "functions_only.py").write_text(text)
    found = run("describe", "functions_only.py")
    assert "it has none; a function may return one: small\n" in found.output
    assert "functions_only.py:small" in found.output
    assert "large" not in found.output


def test_a_mistyped_name_in_a_module_is_answered_with_the_nearest(run):
    """It was called a NoneType."""
    found = run("describe", "app_of_test.py:topolgy")
    assert 1 == found.exit_code
    assert 'did you mean "app_of_test.py:topology"?' in found.output


def test_a_checkpoint_to_reset_may_be_an_address(monkeypatch):
    """It is reached through a session of Spark; a folder of this machine needs none."""
    asked = []
    monkeypatch.setattr("kstreamnb.spark.state.hadoop_files.checkpoint_files", lambda text: asked.append(text) or text)
    assert "s3a://bucket/shop" == cli._checkpoint_at("s3a://bucket/shop")
    assert "shop" == cli._checkpoint_at("checkpoints/shop").name
    assert ["s3a://bucket/shop"] == asked


def test_a_deployment_has_the_batch_limit_of_the_api():
    """Without one, a backlog of any size would be a single batch."""
    limit = inspect.signature(deploy).parameters["max_records"].default
    assert [limit] == [each.default for each in cli.deploy.params if each.name == "max_records"]


@pytest.mark.parametrize(
    ("sent", "code"),
    [(signal.SIGTERM, 0), (signal.SIGHUP, 0), (signal.SIGINT, 130)],
    ids=["SIGTERM", "SIGHUP", "Ctrl-C"],
)
def test_a_deployment_that_is_ended_while_it_starts_ends_cleanly(run, monkeypatch, sent, code):
    """Service managers expect 0 after SIGTERM, shells 130 after an interrupt; there is no word of an abort."""
    monkeypatch.setattr("kstreamnb.spark.deploy.deploy", lambda *_, **__: signal.raise_signal(sent))
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # the suite may run with nohup, which has it ignored
    try:
        result = run("deploy", "app_of_test.py", "--servers", "localhost:9", "--checkpoint", "checkpoint")
    finally:
        signal.signal(signal.SIGHUP, before)
    assert (code, "") == (result.exit_code, result.output)


@pytest.mark.parametrize("first", [True, False], ids=["second", "after-a-failure"])
def test_a_signal_that_comes_while_a_command_ends_changes_nothing(tmp_path, first):
    """Python printed a traceback of SystemExit, from the function that it interrupted."""
    (tmp_path / "signaled.py").write_text(f"import signal\nif {first}:\n    signal.raise_signal(signal.SIGTERM)\n")
    code = (
        "import atexit, signal, sys; from kstreamnb.cli import main;"
        "atexit.register(print, 'cleaned up'); atexit.register(signal.raise_signal, signal.SIGTERM); main()"
    )
    command = [sys.executable, "-c", code, "deploy", "signaled.py", "--servers", "localhost:9", "--checkpoint", "c"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert ("cleaned up\n", 0 if first else 1) == (done.stdout, done.returncode), done.stderr
    assert "SystemExit" not in done.stderr


def test_the_cause_of_a_failed_function_is_printed(run, tmp_path):
    """Type and message of the user's own exception."""
    (tmp_path / "dividing.py").write_text(APP.replace("v * 2", "v / 0"))
    result = run("replay", "dividing.py", "sample.md")
    assert 1 == result.exit_code
    assert "Cause: ZeroDivisionError: division by zero" in result.output


def test_every_command_takes_the_names_that_kafkas_tools_have_for_servers_and_settings(run):
    """--bootstrap-server and --command-config, as reset does."""
    for command in ("capture", "deploy", "reset"):
        assert "--bootstrap-server" in run(command, "--help").output
        assert "--command-config" in run(command, "--help").output


def test_secrets_of_a_file_with_settings_are_not_shown(run, tmp_path):
    """Neither those that librdkafka refuses, nor those of a broker that does not answer."""
    file = tmp_path / "client.properties"
    login = 'sasl.jaas.config=PlainLoginModule required username="shop" password="hush";'
    for settings in ("sasl.jaas.config=hush", f"sasl.mechanism=hash\nsecurity.protocol=SASL_SSL\n{login}"):
        file.write_text(settings)
        result = run("reset", "--servers", "127.0.0.1:1", "--application-id", "a", "--config-file", str(file))
        assert (1, False) == (result.exit_code, "hush" in result.output), result.output


def test_texts_of_strangers_control_no_terminal(run, tmp_path):
    """A sample, its name and a description that somebody sent, and the errors about them."""
    attack = f"{chr(27)}]52;c;aGk={chr(7)}{chr(0x9B)}31m\u202e"
    table = f"topic | key | value | time\nin | {attack} | 1 | 0\n"
    (tmp_path / "other.md").write_text(f"{table}in{attack} | b | 2 | 5\n", encoding="utf-8")
    (tmp_path / "table.md").write_text(table, encoding="utf-8")
    (tmp_path / "broken.md").write_text(f"{table}in | a | {{{attack} | 6\n", encoding="utf-8")
    (tmp_path / "java.txt").write_text(f"Sub-topology: 0\n Source: a{attack} (topics: [in])\n", encoding="utf-8")
    (tmp_path / "no.txt").write_text(f"Sub-topology: 0\n {attack}\n", encoding="utf-8")
    for code, *arguments in (
        (0, "replay", "app_of_test.py", "table.md"),
        (1, "replay", "app_of_test.py", "other.md"),
        (1, "replay", "app_of_test.py", "broken.md"),
        (1, "replay", "app_of_test.py", f"{attack}.md"),
        (0, "graph", "java.txt"),
        (1, "graph", "no.txt"),
    ):
        result = run(*arguments)
        assert code == result.exit_code, result.output
        assert result.output
        assert not set(attack) - set("]52;caGk=31m") & set(result.output), arguments


def test_the_salt_of_hashed_keys_may_be_in_the_environment(run):
    """An argument of a command is visible to all users of a machine."""
    assert "KSTREAMNB_HASH_SALT" in run("capture", "--help").output
