"""The magics ``%ks <verb>`` and ``%%ks <verb>``: each verb calls one public function and returns its result."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Iterable
from functools import reduce
from pathlib import Path
from typing import Any, TypeAlias

from IPython.core.error import UsageError
from IPython.core.magic import Magics, line_cell_magic, magics_class
from IPython.core.magic_arguments import argument, magic_arguments, parse_argstring

import kstreamnb as ks
from kstreamnb.notebook.tracebacks import whole_traceback

_Verb: TypeAlias = "Callable[[KsMagics, Namespace, str | None], object]"
_VERBS: dict[str, _Verb] = {}
_SUMMARIES: dict[str, str] = {}


def _verb(*arguments: Callable[[_Verb], _Verb]) -> Callable[[_Verb], _Verb]:
    """Register a function as a verb of ``%ks`` with these arguments."""

    def register(function: _Verb) -> _Verb:
        name = function.__name__
        _SUMMARIES[name] = str(function.__doc__).partition("\n")[0]
        for each in reversed(arguments):
            function = each(function)
        _VERBS[name] = magic_arguments(f"ks {name}")(function)
        return function

    return register


_thing = argument("thing", help="a variable: a topology, a builder, a stream or a table")
_builder = argument("builder", help="a variable: a builder")
_topology = argument("topology", help="a variable: a topology or a builder")
_sample = argument("sample", nargs="?", help="a variable: a sample; default: the builder's")
_file = argument("file", help="the file to write")
_query = argument("query", help="a variable: the result of deploy")


@magics_class
class KsMagics(Magics):
    """``%ks help`` lists the verbs."""

    @line_cell_magic
    def ks(self, line: str, cell: str | None = None) -> object:
        """Run a verb: ``%ks help`` lists them, ``%ks help <verb>`` shows the arguments of one."""
        verb, _, rest = line.strip().partition(" ")
        if verb in ("", "help"):
            return print(_help(rest.strip()))  # noqa: T201 - the verb prints
        if verb not in _VERBS:
            raise UsageError(f'%ks has no verb "{verb}"; the verbs are {", ".join(_VERBS)}')
        if {"-h", "--help"} & set(rest.split()):
            return print(_help(verb))  # noqa: T201 - the verb prints
        function = _VERBS[verb]
        return function(self, parse_argstring(function, rest), cell)

    def named(self, name: str) -> Any:
        """Return the value of a user's variable, or of an attribute such as ``builder.sample``."""
        variable, *attributes = name.split(".")
        if variable not in self.shell.user_ns:
            raise UsageError(f'no variable is named "{variable}"')
        return reduce(getattr, attributes, self.shell.user_ns[variable])

    def topology(self, name: str) -> Any:
        """Return the topology in a variable, or build that of the builder in it."""
        thing = self.named(name)
        return thing.build() if isinstance(thing, ks.StreamsBuilder) else thing


def following(line: str, variables: Iterable[str]) -> list[str]:
    """Return what may follow a line that begins with ``%ks``: a verb, then variables, the newest first.

    Example:
        >>> following("%ks ", ["orders"])[:3], following("%ks head or", ["orders", "_1"])
        (['graph', 'describe', 'head'], ['orders'])
    """
    *before, begun = line.split(" ")
    names = [*_VERBS, "help"] if before[1:] in ([], ["help"]) else [name for name in variables if name[0] != "_"][::-1]
    return [name for name in names if name.startswith(begun)]


def _help(verb: str) -> str:
    if verb in _VERBS:
        return str(_VERBS[verb].__doc__).strip()
    return "\n".join(f"%ks {name:16} {summary}" for name, summary in _SUMMARIES.items())


@_verb(_thing)
def graph(magics: KsMagics, options: Namespace, _cell: str | None) -> object:
    """Draw a topology, a builder's topology, or the part upstream of a stream or table."""
    return magics.topology(options.thing)


@_verb(_thing)
def describe(magics: KsMagics, options: Namespace, _cell: str | None) -> None:
    """Print a topology as Kafka Streams describes it."""
    print(magics.topology(options.thing).describe(), end="")  # noqa: T201 - the verb prints


@_verb(
    argument("handle", help="a variable: a stream or table"), _sample, argument("-n", type=int, default=10, help="rows")
)
def head(magics: KsMagics, options: Namespace, _cell: str | None) -> object:
    """Show the first records that reach a stream or table."""
    return magics.named(options.handle).head(magics.named(options.sample) if options.sample else None, options.n)


@_verb(_topology, argument("--partitions", type=int, default=1, help="partitions of every topic"))
def pipe(magics: KsMagics, options: Namespace, cell: str | None) -> object:
    """Run the records of a text table, the cell's body, through a topology (%%ks pipe)."""
    if cell is None:
        raise UsageError("%%ks pipe takes its records from the cell: topic | key | value | time")
    sample = ks.Sample.from_text(cell, partitions=options.partitions)
    return ks.replay(magics.topology(options.topology), sample, partitions=options.partitions)


@_verb(_topology, _sample, argument("--partitions", type=int, help="partitions of every topic"))
def replay(magics: KsMagics, options: Namespace, _cell: str | None) -> object:
    """Run a sample through a topology and record every event."""
    sample = magics.named(options.sample) if options.sample else None
    return ks.replay(magics.topology(options.topology), sample, partitions=options.partitions)


@_verb(argument("replay", help="a variable: a replay"), argument("count", nargs="?", type=int, default=1, help="steps"))
def step(magics: KsMagics, options: Namespace, _cell: str | None) -> object:
    """Move a replay by a number of steps, backwards if negative, and show the state there."""
    replay = magics.named(options.replay)
    return replay.seek(min(max(replay.position + options.count, 0), len(replay.steps)))


@_verb(
    argument("topics", nargs="+", help="topics to read"),
    argument("--servers", required=True, help="bootstrap servers"),
    argument("--records", type=int, default=1000, help="how many at most"),
    argument("--seconds", type=float, default=10.0, help="how long at most"),
    argument("--from", dest="since", default="earliest", help='"earliest", "latest" or an ISO 8601 time'),
    argument("--follow", action="store_true", help="wait for new records"),
)
def capture(_magics: KsMagics, options: Namespace, _cell: str | None) -> object:
    """Capture a sample from Kafka topics."""
    limits = {"records": options.records, "seconds": options.seconds, "follow": options.follow}
    return ks.Sample.capture(options.servers, *options.topics, from_=options.since, **limits)


@_verb(
    _topology,
    argument("--servers", required=True, help="bootstrap servers"),
    argument("--checkpoint", required=True, help="a folder that every Spark process can reach"),
    argument("--application-id", help="the application's id, unless the builder has a name"),
    argument("--available-now", action="store_true", help="stop after the records available now"),
    argument("--no-parity", action="store_true", help="do not compare driver and Spark on the builder's sample first"),
)
def deploy(magics: KsMagics, options: Namespace, _cell: str | None) -> object:
    """Compare driver and Spark on the builder's sample, then run a topology from Kafka to Kafka."""
    return ks.deploy(
        magics.topology(options.topology),
        bootstrap_servers=options.servers,
        checkpoint=options.checkpoint,
        application_id=options.application_id,
        available_now=options.available_now,
        parity=not options.no_parity,
    )


@_verb(_query)
def status(magics: KsMagics, options: Namespace, _cell: str | None) -> object:
    """Show the status of a deployment."""
    return magics.named(options.query).status()


@_verb(_query)
def stop(magics: KsMagics, options: Namespace, _cell: str | None) -> None:
    """Stop a deployment after the running batch."""
    magics.named(options.query).stop()


@_verb(
    argument("application", help="the application's id"),
    argument("--servers", required=True, help="bootstrap servers"),
    argument("--checkpoint", help="the deployment's checkpoint, removed too"),
    argument("--yes", action="store_true", help="remove it; otherwise only list it"),
)
def reset(_magics: KsMagics, options: Namespace, _cell: str | None) -> object:
    """List what resetting an application would remove; with --yes, remove it."""
    given = options.servers, options.application
    return ks.kafka.reset(*given, checkpoint=options.checkpoint, dry_run=not options.yes)


@_verb(_builder, _file)
def export(magics: KsMagics, options: Namespace, _cell: str | None) -> None:
    """Write the cells that made a builder's topology as a script."""
    from kstreamnb.notebook.script_export import export as write

    write(options.file, magics.named(options.builder))
    print(f"{options.file}: python {options.file} describes the topology; with --servers and --checkpoint it runs")  # noqa: T201


@_verb(_file)
def save_regression(magics: KsMagics, options: Namespace, _cell: str | None) -> None:
    """Write the cells, each as it ran last, as a notebook with reference outputs and captured samples."""
    from kstreamnb.notebook.regression import save_cells

    file = Path(options.file)
    for note in save_cells(file if file.suffix else file.with_suffix(".ipynb"), magics.shell.kstreamnb_cells.latest()):
        print(note)  # noqa: T201 - what was left out


@_verb()
def logs(_magics: KsMagics, _options: Namespace, _cell: str | None) -> object:
    """Show the path of Spark's logs."""
    return ks.spark.spark_logs()


@_verb()
def traceback(magics: KsMagics, _options: Namespace, _cell: str | None) -> None:
    """Show the last error of kstreamnb with all its frames."""
    print(whole_traceback(magics.shell))  # noqa: T201 - the verb prints


KsMagics.ks.__doc__ = f"{KsMagics.ks.__doc__}\n\n{_help('')}"  # what %ks? shows
