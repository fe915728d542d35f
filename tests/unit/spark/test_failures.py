"""Errors of tasks, as the query reports them."""

from __future__ import annotations

from kstreamnb.errors import ProcessingError
from kstreamnb.spark.execution.failures import name_input, spark_failure


def test_a_record_inside_the_query_is_traced_to_the_input() -> None:
    """No consumer can read a repartition topic that has no log: the input topics and the time lead to the record."""
    inside = ProcessingError("failed", coordinates=("by-product-repartition", 1, 2207, 90_000), detail="task 1_1")
    name_input(inside, {"by-product-repartition"}, ("orders", "prices"))
    way = 'topic "by-product-repartition" exists only inside the query: search orders, prices near timestamp 90000 ms'
    assert f"task 1_1; {way}" == inside.detail
    assert [f"Detail: {inside.detail}"] == [note for note in inside.__notes__ if note.startswith("Detail: ")]
    outside = ProcessingError("failed", coordinates=("orders", 1, 7, 90_000), detail="task 0_1")
    name_input(outside, {"by-product-repartition"}, ("orders", "prices"))
    assert "task 0_1" == outside.detail


def test_an_error_begins_with_what_spark_says() -> None:
    """Py4J's sentence about the call, and the package of Spark's exception, say nothing to a user."""
    said = "An error occurred while calling o42.start.\n: org.apache.spark.SparkException: Job aborted\n\tat a.B.c(D)"
    assert "the run failed: SparkException: Job aborted" == str(spark_failure("the run", RuntimeError(said)))
