"""``%ks <verb>`` and ``%%ks <verb>``: each verb is a line over a public function, and gives the object."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from IPython.core.error import UsageError
from IPython.core.magic import Magics, line_cell_magic, magics_class
from IPython.core.magic_arguments import argument, magic_arguments, parse_argstring

import kstreamnb as ks
from kstreamnb.notebook.tracebacks import whole_traceback

__all__ = ["KsMagics"]

_VERBS: dict[str, Callable[[Any, Any, str | None], Any]] = {}
_SUMMARIES: dict[str, str] = {}


def _verb(*arguments: Any) -> Callable[[Any], Any]:
    """Make a function a verb of ``%ks`` with these arguments; ``%ks help <verb>`` shows them."""

    def made(function: Any) -> Any:
        name = function.__name__
        _SUMMARIES[name] = str(function.__doc__).partition("\n")[0]
        for each in reversed(arguments):
            function = each(function)
        _VERBS[name] = magic_arguments(f"ks {name}")(function)
        return function

    return made


_thing = argument("thing", help="a variable: a topology, a builder, a stream or a table")
_builder = argument("builder", help="a variable: a builder")
_topology = argument("topology", help="a variable: a topology or a builder")
_sample = argument("sample", nargs="?", help="a variable: a sample; the builder's own when left out")
_file = argument("file", help="the file to write")
_query = argument("query", help="a variable: what deploy gave")


@magics_class
class KsMagics(Magics):
    """``%ks help`` lists the verbs."""

    @line_cell_magic
    def ks(self, line: str, cell: str | None = None) -> Any:
        """Run a verb of the kit: ``%ks help`` lists them, ``%ks help <verb>`` shows one's arguments."""
        verb, _, rest = line.strip().partition(" ")
        if verb in ("", "help"):
            return print(_help(rest.strip()))  # noqa: T201 - that is what was asked for
        if verb not in _VERBS:
            raise UsageError(f'%ks has no verb "{verb}": there are {", ".join(_VERBS)}')
        function: Any = _VERBS[verb]
        return function(self, parse_argstring(function, rest), cell)

    def named(self, name: str) -> Any:
        """What a variable of the user holds."""
        if name not in self.shell.user_ns:
            raise UsageError(f'there is no variable "{name}"')
        return self.shell.user_ns[name]

    def topology(self, name: str) -> Any:
        """The topology in a variable, or that of the builder there."""
        thing = self.named(name)
        return thing.build() if isinstance(thing, ks.StreamsBuilder) else thing


def _help(verb: str) -> str:
    if verb in _VERBS:
        return str(_VERBS[verb].__doc__).strip()
    return "\n".join(f"%ks {name:16} {summary}" for name, summary in _SUMMARIES.items())


@_verb(_thing)
def graph(magics: KsMagics, said: Any, _cell: str | None) -> Any:
    """Draw a topology, a builder's topology, or what is above a stream or table."""
    return magics.topology(said.thing)


@_verb(_thing)
def describe(magics: KsMagics, said: Any, _cell: str | None) -> None:
    """Print a topology as Kafka Streams describes it."""
    print(magics.topology(said.thing).describe(), end="")  # noqa: T201 - that is what was asked for


@_verb(
    argument("handle", help="a variable: a stream or table"), _sample, argument("-n", type=int, default=10, help="rows")
)
def head(magics: KsMagics, said: Any, _cell: str | None) -> Any:
    """Show the first records that reach a stream or table."""
    return magics.named(said.handle).head(magics.named(said.sample) if said.sample else None, said.n)


@_verb(_topology, argument("--partitions", type=int, default=1, help="partitions of every topic"))
def pipe(magics: KsMagics, said: Any, cell: str | None) -> Any:
    """Run the records of a text table, the cell's body, through a topology (%%ks pipe)."""
    if cell is None:
        raise UsageError("%%ks pipe takes its records from the cell: topic | key | value | time")
    sample = ks.Sample.from_text(cell, partitions=said.partitions)
    return ks.replay(magics.topology(said.topology), sample, partitions=said.partitions)


@_verb(
    _topology,
    argument("sample", help="a variable: a sample"),
    argument("--partitions", type=int, help="partitions of every topic"),
)
def replay(magics: KsMagics, said: Any, _cell: str | None) -> Any:
    """Run a sample through a topology and keep everything that happens."""
    return ks.replay(magics.topology(said.topology), magics.named(said.sample), partitions=said.partitions)


@_verb(argument("replay", help="a variable: a replay"), argument("count", nargs="?", type=int, default=1, help="steps"))
def step(magics: KsMagics, said: Any, _cell: str | None) -> Any:
    """Move a replay by a number of steps, back when it is negative, and show the state there."""
    found = magics.named(said.replay)
    return found.seek(min(max(found.position + said.count, 0), len(found.steps)))


@_verb(
    argument("topics", nargs="+", help="topics to read"),
    argument("--servers", required=True, help="bootstrap servers"),
    argument("--records", type=int, default=1000, help="how many at most"),
    argument("--seconds", type=float, default=10.0, help="how long at most"),
    argument("--from", dest="since", default="earliest", help='"earliest", "latest" or an instant as ISO text'),
    argument("--follow", action="store_true", help="wait for records that are yet to come"),
)
def capture(_magics: KsMagics, said: Any, _cell: str | None) -> Any:
    """Take a sample of topics of Kafka."""
    limits = {"records": said.records, "seconds": said.seconds, "follow": said.follow}
    return ks.Sample.capture(said.servers, *said.topics, from_=said.since, **limits)


@_verb(
    _topology,
    argument("--servers", required=True, help="bootstrap servers"),
    argument("--checkpoint", required=True, help="a folder that all of Spark's processes reach"),
    argument("--application-id", help="the application's id, unless the builder has a name"),
    argument("--available-now", action="store_true", help="end when what is there now is processed"),
    argument("--no-parity", action="store_true", help="do not compare driver and Spark on the builder's sample first"),
)
def deploy(magics: KsMagics, said: Any, _cell: str | None) -> Any:
    """Compare driver and Spark on the builder's sample, then run a topology from Kafka to Kafka."""
    return ks.deploy(
        magics.topology(said.topology),
        bootstrap_servers=said.servers,
        checkpoint=said.checkpoint,
        application_id=said.application_id,
        available_now=said.available_now,
        parity=not said.no_parity,
    )


@_verb(_query)
def status(magics: KsMagics, said: Any, _cell: str | None) -> Any:
    """Show how a deployment is doing."""
    found = magics.named(said.query).status
    return found() if callable(found) else found


@_verb(_query)
def stop(magics: KsMagics, said: Any, _cell: str | None) -> None:
    """Stop a deployment after the batch that runs."""
    magics.named(said.query).stop()


@_verb(
    argument("application", help="the application's id"),
    argument("--servers", required=True, help="bootstrap servers"),
    argument("--checkpoint", help="the deployment's checkpoint, removed too"),
    argument("--yes", action="store_true", help="do it; without this only say what would be taken away"),
)
def reset(_magics: KsMagics, said: Any, _cell: str | None) -> Any:
    """Say what forgetting an application would take away; with --yes, do it."""
    carry_out = ks.kafka.reset if said.yes else ks.kafka.plan_reset
    return carry_out(said.servers, said.application, checkpoint=said.checkpoint)


@_verb(_builder, _file)
def export(magics: KsMagics, said: Any, _cell: str | None) -> None:
    """Write the cells that made a builder's topology as a script."""
    from kstreamnb.notebook.script_export import export as write

    write(said.file, magics.named(said.builder))
    print(f"{said.file}: python {said.file} describes the topology; with --servers and --checkpoint it runs")  # noqa: T201


@_verb(_file)
def save_regression(magics: KsMagics, said: Any, _cell: str | None) -> None:
    """Write the cells that ran, each as it ran last, as a notebook with reference outputs; captured samples stay in."""
    from kstreamnb.notebook.regression import save_cells

    for note in save_cells(said.file, magics.shell.kstreamnb_cells.latest()):
        print(note)  # noqa: T201 - what the file does not hold


@_verb()
def logs(_magics: KsMagics, _said: Any, _cell: str | None) -> Any:
    """Say where Spark's logs are."""
    return ks.spark.spark_logs()


@_verb()
def traceback(magics: KsMagics, _said: Any, _cell: str | None) -> None:
    """Show the last error of the kit with all its frames."""
    print(whole_traceback(magics.shell))  # noqa: T201 - that is what was asked for


KsMagics.ks.__doc__ = f"{KsMagics.ks.__doc__}\n\n{_help('')}"  # what %ks? shows
