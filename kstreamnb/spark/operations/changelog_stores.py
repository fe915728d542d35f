"""`read_changelogs`: the stores of a Kafka Streams application as its changelogs have them, without touching it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kstreamnb.core.arguments import check_arguments
from kstreamnb.core.formatting import pluralize
from kstreamnb.core.tables import Tabular
from kstreamnb.errors import StateError, expect_known
from kstreamnb.runtime.context.config import Config
from kstreamnb.runtime.task.initial_state import InitialState
from kstreamnb.spark.execution.cyclic_task import single_tasks
from kstreamnb.spark.operations.application_state import application_on, find_state, row_counts, stores_over
from kstreamnb.spark.operations.state_checks import readable_stores
from kstreamnb.spark.planning.placement import plan_deployment
from kstreamnb.spark.state.store_view import StoreView
from kstreamnb.topology.topology import Topology

if TYPE_CHECKING:  # Kafka's client is loaded by connections alone
    from kstreamnb.kafka.client import Servers


@dataclass(frozen=True, repr=False)
class ChangelogStores(InitialState, Tabular):
    """The stores of an application by name, each over all partitions; `replay` can start from them.

    Example: ``stores["counts"]["shoe"]``, ``list(stores["windows"].fetch_all(0, 60_000))``, or
    ``ks.replay(topology, sample, partitions=4, stores=stores)``.

    Attributes:
        application: id of the application.
        views: the stores by name.
        rows: the number of rows that a query returns, by store; expired rows of windows are not among them.
        offsets: committed offsets of the input topics, up to which the stores are.
        problems: what did not match, such as a changelog written with other serdes.
    """

    application: str = ""
    views: Mapping[str, StoreView] = field(default_factory=dict)
    rows: Mapping[str, int] = field(default_factory=dict)
    offsets: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    header: Sequence[str] = ("store", "rows")

    def __getitem__(self, name: str) -> StoreView:
        expect_known("store", [name], self.views, error=StateError)
        return self.views[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.views)

    def __len__(self) -> int:
        return len(self.views)

    @property
    def title(self) -> str:
        """Application and number of stores."""
        return f'changelogs of "{self.application}": {pluralize(len(self.views), "store")}'

    def table(self) -> Iterator[Sequence[str]]:
        """Yield each store with its number of rows."""
        yield from ((name, f"{self.rows[name]:,}") for name in self.views)

    def more(self) -> Iterator[str]:
        """Yield what did not match."""
        yield from self.problems


def read_changelogs(
    topology: Topology,
    application_id: str | None = None,
    *,
    bootstrap_servers: Servers,
    config: Config | Mapping[str, object] | None = None,
) -> ChangelogStores:
    """Read the stores of a Kafka Streams application, which may be running, from its changelogs.

    Only committed records are read, and nothing is written: no group, no topic, no offset.

    Args:
        topology: the application's topology, with the same names of stores.
        application_id: the application's id. Default: None, that of the config, else the topology's name.
        bootstrap_servers: ``host:port``, or librdkafka's settings with ``bootstrap.servers`` among them.
        config: the application's settings, such as default serdes.

    Raises:
        UnknownTopicError: an input topic does not exist.

    Example:
        >>> from kstreamnb import StreamsBuilder
        >>> from kstreamnb.kafka import Admin, local_broker
        >>> builder = StreamsBuilder("visits")
        >>> counts = builder.stream("pages").group_by_key().count(store="counts")
        >>> with local_broker() as broker:
        ...     Admin(broker.bootstrap_servers).create_topic("pages")
        ...     stores = read_changelogs(builder.build(), bootstrap_servers=broker.bootstrap_servers)
        >>> print(stores.title, list(stores["counts"]))
        changelogs of "visits": 1 store []
    """
    check_arguments(read_changelogs, locals())
    from kstreamnb.kafka.admin import Admin

    admin = Admin(bootstrap_servers)
    application = application_on(admin, topology, application_id, config)
    state = find_state(admin, plan_deployment("changelogs", [application], 1), running=True)
    tasks = single_tasks(state.tasks.values())
    rows = {task.plan.task_id: {name: dict(store.raw) for name, store in task.stores.items()} for task in tasks}
    times = {task.plan.task_id: task.context.stream_time[0] for task in tasks}
    views = {name: StoreView(name, stores_over(state, name)) for name in sorted(readable_stores(application))}
    return ChangelogStores(rows, times, application.id, views, row_counts(state), state.offsets, tuple(state.problems))
