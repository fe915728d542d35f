"""The examples on the pages of errors raise these errors."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import kstreamnb as ks
from tests.kafka.error_examples import EXAMPLES

pytestmark = [pytest.mark.kafka, pytest.mark.spark]


@pytest.fixture(autouse=True)
def stopped_queries() -> Iterator[None]:
    yield
    for query in ks.spark.active():
        query.stop()


@pytest.mark.parametrize("kind", EXAMPLES, ids=lambda kind: kind.__name__)
def test_the_example_of_a_page_raises_its_error(kind: Any, servers: str, spark: Any, tmp_path: Path) -> None:
    with pytest.raises(kind) as caught:
        EXAMPLES[kind](servers, spark, tmp_path)
    assert type(caught.value) is kind
