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


def records(topic: str, batch: int, chance: random.Random, *, fail: bool) -> Iterator[OutputColumns]:
    """Columns that add partitions to the transaction one after the other, and sometimes fail halfway if they may."""
    for partition in range(PARTITIONS):
        yield from columns_of([(topic, partition, 1000, b"k", b"%d" % batch, ())])
        time.sleep(chance.choice((0.0, 0.0, 0.001, 0.005)))
        if fail and chance.random() < 0.08:
            raise GivenUp


def main(servers: str, name: str, rounds: str) -> None:
    """Publish batches; most are abandoned, some by another thread that closes the writer, but never the last one.

    It publishes what a writer that was closed may or may not have committed. Each round has its own random numbers, so
    that those of the next do not depend on how much a closed one has drawn.
    """
    batch, done = 0, 0
    for number in range(int(rounds)):
        chance, last = random.Random(f"{name} {number}"), number + 1 == int(rounds)
        writer = TransactionalWriter(servers, name, "q")
        writer.open()
        step = "never" if last else chance.choice(("begin", "produced", "offsets", "never"))
        closes = not last and chance.random() < 0.3
        closing = threading.Timer(chance.uniform(0, 0.05), writer.close) if closes else None

        def between(here: str, step: str = step) -> None:
            if here == step:
                raise GivenUp

        if closing is not None:
            closing.start()
        try:
            writer.publish(batch, f"offsets {batch}", records(name, batch, chance, fail=not last), {}, between=between)
        except (GivenUp, KStreamError):
            pass
        else:
            batch, done = batch + 1, done + 1
        del writer
        gc.collect()
    print(done)


if __name__ == "__main__":
    main(*sys.argv[1:])
