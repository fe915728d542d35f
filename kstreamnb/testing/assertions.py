"""Assertions that show the complete difference, and the sanitizers for nbval."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from difflib import ndiff
from itertools import groupby

from kstreamnb.core.arguments import check_arguments
from kstreamnb.core.formatting import pluralize
from kstreamnb.core.record import TopicRecord
from kstreamnb.display.diff import TopologyDiff
from kstreamnb.display.diff import diff as described_diff
from kstreamnb.display.parser import parse_description
from kstreamnb.errors import ConfigError
from kstreamnb.samples import Sample
from kstreamnb.samples.text import record_cells, table_columns
from kstreamnb.topology.description import TopologyDescription
from kstreamnb.topology.topology import Topology
from kstreamnb.validation.output_diff import OutputDiff, RunOutputs
from kstreamnb.validation.output_diff import diff as output_diff

_CONTEXT = 3

Described = Topology | TopologyDescription | str
"""A topology, its description, or the text of a description, such as Kafka Streams prints it."""


def diff(
    first: Described | RunOutputs, second: Described | RunOutputs, *, topics: Sequence[str] | None = None
) -> TopologyDiff | OutputDiff:
    """Compare two topologies (or their descriptions), or the outputs of two runs.

    Runs are replays, or their records. Their outputs are compared record by record within each partition of each topic;
    topologies are compared node by node and store by store.

    Args:
        first: a topology or description; or a replay or records.
        second: a value of the same kind.
        topics: output topics to compare. Default: all of them.

    Raises: ConfigError if one is a topology and the other an output.

    Example:
        >>> from kstreamnb import TopicRecord
        >>> one, other = ([TopicRecord("out", 0, 0, 5, "shoe", pieces)] for pieces in (1, 2))
        >>> print(diff(one, other))
        outputs differ in 2 rows of "out"; 0 records equal
          | topic | partition | row | key    | value | time | headers
        --+-------+-----------+-----+--------+-------+------+--------
        - | out   | 0         | 0   | "shoe" | 1     | 5    |
        + | out   | 0         | 0   | "shoe" | 2     | 5    |
        "-": only first, "+": only second
    """
    check_arguments(diff, locals())
    if isinstance(first, Described) and isinstance(second, Described):
        return described_diff(_description(first), _description(second))
    if isinstance(first, Described) or isinstance(second, Described):
        raise ConfigError("expected two topologies or two outputs, got one of each")
    return output_diff(first, second, topics=topics)


def assert_topology_equal(expected: Described, actual: Described) -> None:
    """Raise AssertionError, with the differences node by node, unless two topologies have equal descriptions.

    Args:
        expected: a topology, its description, or the description's text.
        actual: the other one, in any of these forms.

    Raises: AssertionError with the differences.

    Example:
        >>> from kstreamnb import StreamsBuilder
        >>> builder = StreamsBuilder()
        >>> builder.stream("orders").to("copies")
        >>> assert_topology_equal(str(builder.build().describe()), builder.build())
    """
    check_arguments(assert_topology_equal, locals())
    before, after = _description(expected), _description(actual)
    if before != after:
        raise AssertionError(f"the topologies differ:\n{described_diff(before, after)}")


def assert_outputs_equal(
    expected: Iterable[TopicRecord] | str, actual: Iterable[TopicRecord], *, columns: Iterable[str] | None = None
) -> None:
    r"""Raise AssertionError, with a table of missing (-) and unexpected (+) records, unless all are equal.

    ``expected`` may be a text table; then only its columns are compared. Of equal records, the table has the three
    before and after each difference.

    Args:
        expected: the expected records, or a table as text.
        actual: the records that the topology wrote.
        columns: names of the columns to compare. Default: those of the table, or all.

    Raises: AssertionError with that table.

    Example:
        >>> from kstreamnb import Sample
        >>> found = Sample.from_text("topic | key | value | time \n counts | shoe | 2 | 5")
        >>> assert_outputs_equal("topic | key | value \n counts | shoe | 2", found)
    """
    check_arguments(assert_outputs_equal, locals())
    if isinstance(expected, str):
        columns = columns or table_columns(expected)
        expected = Sample.from_text(expected)
    shown = list(columns or ("topic", "key", "value", "time", "partition", "headers"))
    before, after = ([" | ".join(row) for row in record_cells(list(records), shown)] for records in (expected, actual))
    if before != after:
        title = " | ".join(shown)
        lines = [line for line in ndiff(before, after) if not line.startswith("?")]
        table = "\n".join([f"  {title}", *_near_differences(lines)])
        raise AssertionError(f"the outputs differ (- missing, + unexpected):\n{table}")


def _near_differences(lines: list[str]) -> Iterator[str]:
    """Yield lines of a difference; equal ones that are far from a differing one are counted."""
    differ = (at for at, line in enumerate(lines) if not line.startswith(" "))
    shown = {near for at in differ for near in range(at - _CONTEXT, at + _CONTEXT + 1)}
    for is_shown, group in groupby(range(len(lines)), shown.__contains__):
        rows = [lines[at] for at in group]
        yield from rows if is_shown or len(rows) == 1 else [f"  … {pluralize(len(rows), 'equal record')}"]


def nbval_sanitizers() -> str:
    """Return the path of the file for ``pytest --nbval --nbval-sanitize-with``.

    Example:
        >>> nbval_sanitizers().endswith("sanitizers.cfg")
        True
    """
    from kstreamnb.notebook.recorder import SANITIZERS

    return str(SANITIZERS)


def _description(thing: Described) -> TopologyDescription:
    if isinstance(thing, Topology):
        return thing.description()
    return parse_description(thing) if isinstance(thing, str) else thing
