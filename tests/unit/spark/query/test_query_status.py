"""Texts of a query's status."""

from __future__ import annotations

import kstreamnb as ks
from kstreamnb.runtime.context.config import Config
from kstreamnb.source_location import SourceLocation
from kstreamnb.spark.planning.placement import plan_application, plan_deployment
from kstreamnb.spark.query.query_status import QueryDescription, QueryStatus, failure_line


def failure(kind: str, cause: BaseException) -> ks.KStreamError:
    """Return the error of a node, with its cause."""
    line = SourceLocation("trips.py", 12, 'trips.map_values(lambda trip: trip["kmm"])')
    error = ks.errors.ProcessingError(f'node "KM" failed {kind}', coordinates=("trips", 0, 7, 5), origin=line)
    error.__cause__ = cause
    return error


def test_the_failure_of_a_query_is_one_line_with_cause_record_and_line() -> None:
    """The missing field is named, with the record and the user's code."""
    text = failure_line(failure("with KeyError", KeyError("kmm")))
    at = 'at trips.py, line 12: trips.map_values(lambda trip: trip["kmm"])'
    assert f"node \"KM\" failed with KeyError: 'kmm'; record trips-0@7; {at}" == text


def test_the_status_of_a_query_that_its_broker_refuses_says_why() -> None:
    """It runs, and waits; the reason is that of the log."""
    refused = QueryStatus("running", 3, -1, {}, application="shop", away="SASL: Invalid username or password")
    assert "waits for the broker: SASL: Invalid username or password" in str(refused).splitlines()
    assert "broker" not in str(QueryStatus("running", 3, 0, {}, application="shop"))


def test_a_cycle_reads_ranges_of_partitions() -> None:
    """Sub-topologies that feed each other are one task, whose partitions would not fit into a line one by one."""
    builder = ks.StreamsBuilder("shop")
    customers, orders = builder.table("customers", store="customers"), builder.table("orders", store="orders")
    orders.join(customers, lambda order: order, lambda order, name: name).to_stream().group_by(
        lambda key, name: name, name="by-name"
    ).count()
    partitions = {"customers": 12, "orders": 12}
    deployment = plan_deployment("q", [plan_application(builder.build(), Config(), partitions, direct=True)], 1)
    rows = list(QueryDescription(QueryStatus("running", 3, 0, {}), deployment).table())
    cycle, first = rows[0], rows[1]
    assert "customers-0…11" in cycle[2].split(", ")
    assert "orders-0…11" in cycle[2].split(", ")
    assert "shop-by-name-repartition-0" == first[2]


def test_the_failure_of_a_query_does_not_quote_values() -> None:
    """The texts of errors about values may contain parts of a record."""
    assert "4111" not in failure_line(failure("with ValueError", ValueError("invalid literal: '4111'")))
    assert "4111" not in failure_line(failure("with KeyError", KeyError("4111")))  # a record's, not in the code


def test_the_failure_of_a_query_without_a_record_is_its_message() -> None:
    """Errors of Kafka or Spark have neither a record nor a line."""
    assert "no broker" == failure_line(ks.errors.BrokerError("no broker"))
