"""Errors of workers name the cells of the notebook, like errors of this process."""

from __future__ import annotations

from typing import Any

import pytest

from tests.notebook.shells import loaded_shell

pytestmark = pytest.mark.spark

DECLARE = """def pieces(order):
    return order["pieces"] + 1


builder = ks.StreamsBuilder("orders")
builder.stream("orders").map_values(pieces, name="pieces").to("out")
topology = builder.build()
"""
SAMPLE = 'sample = ks.Sample.from_text("topic | key | value | time\\norders | a | {} | 5")'
FAIL = """try:
    {}
except ks.KStreamError as error:
    notes, place = error.__notes__, error.origin.place
"""


def test_a_failure_in_a_worker_names_the_cell_and_line_that_the_driver_names(spark: Any) -> None:
    """S0-10: a worker knows a cell only by its file; the error shows the number of the front end."""
    with loaded_shell() as shell:
        shell.ip.user_ns["spark"] = spark
        shell.run(DECLARE, "declares")
        shell.run(SAMPLE, "samples")
        shell.run(FAIL.format("ks.run(topology, inputs=sample, spark=spark)"), "on Spark")
        on_spark, place = shell.value("notes"), shell.value("place")
        shell.run(FAIL.format("ks.replay(topology, sample)"), "here")
        here = shell.value("notes")
    at = 'At: cell 2, line 2: return order["pieces"] + 1'
    assert at in here
    assert at in on_spark
    assert place == "cell 2"
