"""Checks of the exercises on operations."""

from __future__ import annotations

import json

from kstreamnb.course.judging import called
from kstreamnb.data_files import rows_of


def _instances(answer: object) -> str:
    for arguments, instances, what in rows_of(__package__, "operations.tsv"):
        result = called(answer, *json.loads(arguments))
        if result != json.loads(instances):
            return f"{what}: {result!r} is not right."
    return ""


JUDGES = {"operations.1": _instances}
