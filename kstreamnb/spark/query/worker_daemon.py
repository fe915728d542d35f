"""The process that a session's Python workers are forked from: ``python -m kstreamnb.spark.query.worker_daemon``.

Spark's own daemon imports nothing before it forks, so each of its workers imports everything.
"""

from __future__ import annotations

import gc

import pandas
import pyspark.worker
from pyspark.daemon import manager

from kstreamnb.spark.query import warm_up_job

# Each worker needs these; Arrow imports pandas when Spark converts rows. None starts a Python thread, and the libraries
# of NumPy and Arrow prepare their own threads for a fork.
IMPORTED = (pandas, pyspark.worker, warm_up_job)

if __name__ == "__main__":
    gc.freeze()  # no worker has to search for garbage in what is imported
    manager()
