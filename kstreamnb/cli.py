"""The ``kstreamnb`` command: thin commands over public functions.

An application is ``module:name`` or ``file.py:name`` of a topology, of a builder, or of a function that returns one;
without a name, the only topology or builder of the module is used.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial, wraps
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kstreamnb import __version__, hooks
from kstreamnb.data_files import encode_all
from kstreamnb.errors import ConfigError, KStreamError, ProcessingError
from kstreamnb.hints import reason_of
from kstreamnb.masking import clean
from kstreamnb.signals import end_signals

if TYPE_CHECKING:  # commands import what they need
    from kstreamnb.kafka.client import Servers
    from kstreamnb.kafka.storage.checkpoint_files import CheckpointFiles
    from kstreamnb.topology.topology import Topology

_DRAWINGS = ("text", "mermaid", "dot", "svg")
_FORMS = {"": "text", ".txt": "text", ".mmd": "mermaid", ".dot": "dot", ".gv": "dot", ".svg": "svg"}
_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_ENDINGS = ", ".join(filter(None, _FORMS))
_SALT = "KSTREAMNB_HASH_SALT"


def _in_existing_folder(_: click.Context, option: click.Parameter, path: Path | None) -> Path | None:
    """Refuse an output file before any work is done for it."""
    if path is not None and not path.parent.is_dir():
        raise click.BadParameter(f'folder "{path.parent}" does not exist', param=option)
    return path


_OUTPUT_FILE = click.Path(dir_okay=False, path_type=Path)
_CONFIG = (
    "A setting of the application, or a .properties or YAML file of settings; a later one wins. "
    "A handler, extractor or serde may be module:name."
)
_OUTPUT = partial(click.option, "--output", "-o", type=_OUTPUT_FILE, callback=_in_existing_folder)


class _Commands(click.Group):
    """Prints kstreamnb's errors without a traceback.

    Exits with 0 on success, 1 after an error of kstreamnb or of the system, 2 if the command was not understood, 130
    after an interrupt.
    """

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command, with a progress line on a terminal; an error of kstreamnb ends it with exit code 1."""
        encode_all(sys.stdout, sys.stderr)
        if sys.stderr.isatty() and find_spec("tqdm") is not None:
            from kstreamnb.notebook.progress_bar import ProgressBar, TerminalBar

            hooks.install(progress=ProgressBar(TerminalBar))
        try:
            return super().invoke(ctx)
        except KStreamError as error:
            cause = error.__cause__ if isinstance(error, ProcessingError) else None
            because = [f"Cause: {clean(reason_of(cause, error.origin))}"] if cause else []
            click.echo("\n".join([f"{type(error).__name__}: {error}", *because, *error.__notes__]), err=True)
            ctx.exit(1)
        except BrokenPipeError:  # such as that of `| head`
            raise
        except OSError as error:
            words = (error.filename, error.strerror or error)
            raise click.ClickException(": ".join(str(word) for word in words if word)) from error
        except KeyboardInterrupt:
            ctx.exit(130)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="kstreamnb")
def main() -> None:
    """Kafka Streams for notebooks: build a topology, replay it deterministically, deploy it to Spark.

    An APPLICATION is module:name or file.py:name of a topology, of a builder, or of a function that returns one;
    without a name, the only topology or builder of the module is used.
    """


def _load(application: str) -> Topology:
    from kstreamnb.tools.applications import load_application

    return load_application(application)


# --- topologies ---
@main.command(hidden=True)  # `make demo` runs it
@click.option("--limit", type=int, help="Only this many flights.")
@click.option("--picture", type=click.Path(dir_okay=False, path_type=Path), help="Write the graph there, as SVG.")
def demo(limit: int | None, picture: Path | None) -> None:
    """Run the whole path on real data: build, see, replay, Spark, Kafka."""
    from kstreamnb.tools.demo import main as run_demo

    sys.exit(run_demo(click.echo, limit=limit, picture=picture))


@main.command()
def doctor() -> None:
    """Report which parts of kstreamnb can run on this machine, and what to install for the others."""
    from kstreamnb.tools.doctor import diagnose

    click.echo(str(diagnose()))


@main.command("archive-classes")
def archive_spark_classes() -> None:
    """Run Spark once, and archive the classes that it loads: later sessions start in half the time (180 MB)."""
    from kstreamnb.tools.class_archive import archive_classes

    click.echo(f"{archive_classes()}: written")


@main.command()
@click.argument("application")
def describe(application: str) -> None:
    """Print the description of APPLICATION, as Kafka Streams prints it."""
    topology: Any = _load(application)
    click.echo(str(topology.describe()) if hasattr(topology, "describe") else str(topology), nl=False)


@main.command()
@click.argument("application")
@click.option(
    "--format", "form", type=click.Choice(_DRAWINGS), help="Default: from the file's extension, otherwise text."
)
@_OUTPUT(help="Write it to a file.")
def graph(application: str, form: str | None, output: Path | None) -> None:
    """Draw APPLICATION, or the description of a Java application in a .txt file (- for standard input)."""
    if form is None:
        suffix = "" if output is None else output.suffix
        if suffix not in _FORMS:
            raise ConfigError(f'no form of a drawing ends in "{suffix}"', hint=f"end in {_ENDINGS}, or say --format")
        form = _FORMS[suffix]
    drawn = str(getattr(_load(application), f"to_{form}")())
    if output is None:
        click.echo(drawn)
    else:
        output.write_text(drawn if drawn.endswith("\n") else drawn + "\n", encoding="utf-8", newline="\n")


@main.command()
@click.argument("application")
@click.argument("sample")
@click.option("--partitions", type=click.IntRange(min=1), help="Of every topic.  [default: as in SAMPLE]")
@click.option("--config", multiple=True, metavar="NAME=VALUE|FILE", help=_CONFIG)
def replay(application: str, sample: str, partitions: int | None, config: Sequence[str]) -> None:
    """Run the records of SAMPLE (.parquet, .jsonl, or a text table) through APPLICATION and print its outputs."""
    from kstreamnb.samples.text import format_records
    from kstreamnb.testdriver.sample_partitions import partitions_for
    from kstreamnb.testdriver.topology_test_driver import TopologyTestDriver
    from kstreamnb.tools.applications import config_options
    from kstreamnb.tools.parity import internal_topics
    from kstreamnb.tools.sample_files import read_sample
    from kstreamnb.topology.nodes import Source

    topology, records = _load(application), read_sample(sample)
    counts = partitions_for(topology, records, partitions)
    with TopologyTestDriver(topology, config_options(config), partitions=counts, changelogs=False) as driver:
        driver.pipe(records if partitions is None else records.with_partitions(partitions))
        read = {name for node in topology.nodes.values() if isinstance(node, Source) for name in node.topics}
        written = sorted(driver.produced_topic_names() - read - internal_topics(topology, driver.config))
        tables = [driver.create_output_topic(topic).read_records() for topic in written]
    for table in tables:
        click.echo(f"{format_records(table)}\n")
    click.echo(f"{len(records):,} record{'s' * (len(records) != 1)} in, {sum(map(len, tables)):,} out")


def _end_cleanly() -> None:
    """Let SIGTERM and SIGHUP end the command with 0; as soon as it ends, they change nothing."""
    for number in end_signals():
        signal.signal(number, _end)
        # Otherwise, Python prints a traceback of SystemExit if one comes while it ends.
        click.get_current_context().call_on_close(partial(signal.signal, number, signal.SIG_IGN))


def _end(number: int, _: object) -> None:
    signal.signal(number, signal.SIG_IGN)
    sys.exit(0)


# --- notebooks ---
@main.group()
def notebook() -> None:
    """Regression notebooks: recorded outputs are the reference for later runs."""


@notebook.command("record")
@click.argument("file", type=_FILE)
def record_notebook(file: Path) -> None:
    """Execute FILE and write its outputs into it as the reference; lists cells that cannot be compared later."""
    from kstreamnb.notebook.regression import record

    for note in record(file):
        click.echo(note)
    click.echo(f"{file.name}: recorded")


@notebook.command("check")
@click.argument("paths", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path), metavar="FILE|FOLDER")
def check_notebooks(paths: Sequence[Path]) -> None:
    """Execute notebooks, or all of a folder, and compare their outputs with the reference."""
    from kstreamnb.notebook.regression import check

    check(*paths)
    click.echo(f"{', '.join(path.name for path in paths)}: every output is as recorded")


# --- Kafka ---
def _of_broker(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of a command that talks to a broker: its address, and a file with settings of clients."""

    @click.option("--servers", "--bootstrap-server", required=True, metavar="HOST:PORT", help="Bootstrap servers.")
    @click.option(
        "--config-file", "--command-config", type=_FILE, help="A file of clients' properties, such as credentials."
    )
    @wraps(command)
    def run(servers: str, config_file: Path | None, **options: Any) -> None:
        from kstreamnb.validation.config_file import read_properties

        given = {} if config_file is None else read_properties(config_file)
        command(servers={**given, "bootstrap.servers": servers} if given else servers, **options)

    return run


@main.command()
@_of_broker
@click.argument("topics", nargs=-1, required=True)
@_OUTPUT(required=True, help="A .parquet or .jsonl file; any other becomes a text table.")
@click.option("--records", type=int, default=1000, show_default=True, help="How many at most.")
@click.option("--seconds", type=float, default=10.0, show_default=True, help="How long at most.")
@click.option("--bytes", "size", type=int, help="Bytes of keys and values.")
@click.option("--from", "from_", default="earliest", show_default=True, help='"earliest", "latest" or ISO text.')
@click.option("--follow", is_flag=True, help="Wait for new records.")
@click.option("--key-serde", default="string", show_default=True, help="How keys are read, such as long.")
@click.option("--value-serde", default="json", show_default=True, help="How values are read, such as string.")
@click.option("--redact", multiple=True, metavar="FIELD", help="Blank out a field of dict values.")
@click.option("--hash-keys", metavar="SALT", envvar=_SALT, help=f"Replace keys by their hashes; by default ${_SALT}.")
def capture(servers: Servers, topics: Sequence[str], output: Path, size: int | None, **options: Any) -> None:
    """Capture a sample of TOPICS into a file; Ctrl-C keeps the records read so far."""
    from kstreamnb.samples import Sample
    from kstreamnb.tools.sample_files import write_sample

    sample = Sample.capture(servers, *topics, bytes=size, **options)
    write_sample(sample, output)
    for note in sample.notes:
        click.echo(note)
    bad = len(sample.undecodable)
    click.echo(f"{len(sample):,} records, {bad:,} undecodable, hash {sample.content_hash}")


@main.command()
@_of_broker
@click.argument("application")
@click.option("--checkpoint", required=True, help="A folder that all Spark processes can reach.")
@click.option("--application-id", help="Default: the name of the topology, or the config's.")
@click.option("--config", multiple=True, metavar="NAME=VALUE|FILE", help=_CONFIG)
@click.option("--from", "starting", default="earliest", show_default=True, help="Where a new query begins.")
@click.option("--max-records", type=int, default=500_000, show_default=True, help="Records a batch at most, or 0.")
@click.option("--fail-on-loss/--no-fail-on-loss", default=True, help="End if records were removed unread (default).")
@click.option("--available-now", is_flag=True, help="Stop after processing what is there now.")
@click.option("--log", type=_OUTPUT_FILE, help="Append the log to a file, as lines of JSON.")
def deploy(servers: Servers, application: str, config: Sequence[str], log: Path | None, **options: Any) -> None:
    """Run APPLICATION on Spark, from Kafka to Kafka, until Ctrl-C, SIGTERM or SIGHUP, which end it with 0.

    Starts, warnings and stops are printed to standard error; the file of --log also has batches and errors. Ctrl-C
    while it starts ends it with 130.
    """
    from kstreamnb.spark.deploy import deploy as start
    from kstreamnb.spark.telemetry.query_log import log_to, print_events
    from kstreamnb.tools.applications import config_options

    print_events()
    if log is not None:
        log_to(log)
    _end_cleanly()
    query = start(_load(application), bootstrap_servers=servers, config=config_options(config), **options)
    try:
        with suppress(KeyboardInterrupt):  # before the query waited for one
            click.echo(f"{query.application} runs; Ctrl-C stops it")
            query.await_termination()
    finally:
        query.stop()


_FROM_FILE = "Begin at the offsets in this file: lines of topic,partition,offset."


@main.command()
@_of_broker
@click.option("--application-id", required=True, help="The application to forget.")
@click.option("--checkpoint", help="The deployment's checkpoint: a local one shows if it runs; it is removed.")
@click.option("--topology", "application", metavar="APPLICATION", help="module:name, to find exactly its topics.")
@click.option("--input-topics", help="Set where the next deployment begins in these, with commas between.")
@click.option("--intermediate-topics", help="Topics it writes and reads: the next one begins at their end.")
@click.option("--internal-topics", help="Delete only these of its internal topics.")
@click.option("--to-earliest", "to", flag_value="earliest", help="Begin with the first record (the default).")
@click.option("--to-latest", "to", flag_value="latest", help="Begin at the end.")
@click.option("--to-offset", type=int, help="Begin at this offset of every partition.")
@click.option("--to-datetime", help="Begin at an instant, such as 2026-01-01T09:00Z.")
@click.option("--by-duration", help="Begin this long before now, such as 1h.")
@click.option("--shift-by", type=int, help="Offsets to add to the committed ones.")
@click.option("--from-file", type=_FILE, help=_FROM_FILE)
@click.option("--dry-run", is_flag=True, help="Only show what would be done.")
@click.option("--force", is_flag=True, help="Continue even if the application is in use, or its checkpoint is lost.")
@click.option("--yes", is_flag=True, help="Do not ask.")
def reset(servers: Servers, application_id: str, *, dry_run: bool, yes: bool, **options: Any) -> None:
    """Reset an application: delete its marker, internal topics, group and checkpoint; inputs and outputs stay.

    The flags are those of Kafka's application reset tool. Refuses while the application runs:
    of a deployment to Spark, only its checkpoint shows that.
    """
    from kstreamnb.kafka.application_reset import reset as carry_out

    chosen = _reset_options(**options)
    click.echo(str(carry_out(servers, application_id, **chosen, dry_run=True)))
    if dry_run:
        return
    if not yes:
        click.confirm("Continue?", abort=True)
    carry_out(servers, application_id, **chosen)
    click.echo("done")


def _reset_options(
    *,
    application: str | None,
    checkpoint: str | None,
    to: str | None,
    to_offset: int | None,
    to_datetime: str | None,
    from_file: Path | None,
    **options: Any,
) -> dict[str, Any]:
    """Return the command's flags as arguments of `reset`."""
    ways = (to, to_offset, to_datetime, options["by_duration"], options["shift_by"], from_file)
    if sum(each is not None for each in ways) > 1:
        raise click.UsageError("choose only one option that says where to begin")
    for name in ("input_topics", "intermediate_topics", "internal_topics"):
        options[name] = tuple(part.strip() for part in (options[name] or "").split(",") if part.strip())
    if from_file is not None:
        options["input_topics"] = _offsets_in(from_file, options["input_topics"])
    options["checkpoint"] = None if checkpoint is None else _checkpoint_at(checkpoint)
    where = to_offset if to_offset is not None else to_datetime or to or "earliest"
    return {"topology": _load(application) if application else None, "to": where, **options}


def _checkpoint_at(text: str) -> CheckpointFiles:
    """Return the files of a checkpoint; an address needs a session of Spark."""
    from kstreamnb.kafka.storage.checkpoint_files import local_folder, to_files

    if local_folder(text) is not None:
        return to_files(text)
    from kstreamnb.spark.state.hadoop_files import checkpoint_files

    return checkpoint_files(text)


def _offsets_in(path: Path, topics: Sequence[str]) -> dict[str, dict[int, int]]:
    """Read offsets from lines ``topic,partition,offset``, of the given topics or of all."""
    from kstreamnb.validation.config_file import read_text

    offsets: dict[str, dict[int, int]] = {}
    for number, line in enumerate(read_text(path).splitlines(), 1):
        topic, *rest = (part.strip() for part in line.split(","))
        if line.strip() and (len(rest) != 2 or not all(part.isdecimal() for part in rest)):
            raise click.BadParameter(f'line {number} is not topic,partition,offset: "{line}"', param_hint="--from-file")
        if line.strip() and (not topics or topic in topics):
            offsets.setdefault(topic, {})[int(rest[0])] = int(rest[1])
    return offsets


@main.command()
@click.option("--data", type=click.Path(file_okay=False, path_type=Path), help="A folder that keeps the data.")
@click.option("--port", type=click.IntRange(1, 65535), help="Default: that of the data's last broker, or a free one.")
@click.option("--topic", "topics", multiple=True, metavar="NAME[:PARTITIONS]", help="Create a topic.")
def broker(data: Path | None, port: int | None, topics: Sequence[str]) -> None:
    """Run a real single-node Kafka broker on this machine until Ctrl-C or SIGTERM, which end it cleanly: with 0."""
    from kstreamnb.kafka.admin import Admin
    from kstreamnb.kafka.broker_process import local_broker

    _end_cleanly()
    with local_broker(data=data, port=port) as running:
        admin = Admin(running.bootstrap_servers)
        for topic in topics:
            name, _, partitions = topic.partition(":")
            admin.create_topic(name, partitions=_count(topic, partitions or "1"), exists_ok=True)
        try:
            click.echo(f"{running.bootstrap_servers}")
            raise running.await_failure()
        except KeyboardInterrupt:
            click.echo("stopping", err=True)


def _count(topic: str, text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise click.BadParameter(f'"{topic}" is not NAME or NAME:PARTITIONS', param_hint="--topic")
    return int(text)
