"""Abandons transactions at random moments, then exits: ``python -m tests.kafka.dropping SERVERS NAME ROUNDS``."""

from __future__ import annotations

import gc
import random
import sys
import threading
import time
from collections.abc import Iterator

from kstreamnb.errors import KStreamError
from kstreamnb.kafka.output_batch import OutputColumns, columns_of
from kstreamnb.kafka.transactional_writer import TransactionalWriter

PARTITIONS = 8


class GivenUp(BaseException):
    """Ends a publication between two steps, as Ctrl-C does."""


def records(topic: str, batch: int, chance: random.Random) -> Iterator[OutputColumns]:
    """Columns that add partitions to the transaction one after the other, and sometimes fail halfway."""
    for partition in range(PARTITIONS):
        yield from columns_of([(topic, partition, 1000, b"k", b"%d" % batch, ())])
        time.sleep(chance.choice((0.0, 0.0, 0.001, 0.005)))
        if chance.random() < 0.08:
            raise GivenUp


def main(servers: str, name: str, rounds: str) -> None:
    """Publish batches; most are abandoned, some by another thread that closes the writer."""
    chance, batch, done = random.Random(name), 0, 0
    for _ in range(int(rounds)):
        writer = TransactionalWriter(servers, name, "q")
        writer.open()
        step = chance.choice(("begin", "produced", "offsets", "never"))
        closing = threading.Timer(chance.uniform(0, 0.05), writer.close) if chance.random() < 0.3 else None

        def between(here: str, step: str = step) -> None:
            if here == step:
                raise GivenUp

        if closing is not None:
            closing.start()
        try:
            writer.publish(batch, f"offsets {batch}", records(name, batch, chance), {}, between=between)
        except (GivenUp, KStreamError):
            pass
        else:
            batch, done = batch + 1, done + 1
        del writer
        gc.collect()
    print(done)


if __name__ == "__main__":
    main(*sys.argv[1:])
