"""Runs an application on this machine with a broker and made input: ``python run.py orders --seconds 60``."""

from __future__ import annotations

import argparse
import importlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import kstreamnb as ks

FOLDER = Path(__file__).parent


def free_port() -> int:
    """Return a port of this machine that nobody uses."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def is_healthy(url: str) -> bool:
    """Return whether the service answers, and its query runs."""
    try:
        with urlopen(f"{url}/health", timeout=5) as answer:
            return bool(answer.status == 200)
    except (URLError, OSError):  # not yet
        return False


def start(folder: Path, **settings: object) -> subprocess.Popen[bytes]:
    """Start the service of an application in a process group of its own, so that Ctrl-C reaches only this program."""
    environment = {**os.environ, **{name: str(value) for name, value in settings.items()}}
    return subprocess.Popen([sys.executable, "service.py"], cwd=folder, env=environment, start_new_session=True)


@contextmanager
def producer(servers: str) -> Iterator[Callable[[int, int, int], object]]:
    """Yield what sends made records to the broker."""
    made = importlib.import_module("made")
    yield lambda first, count, start_ms: ks.kafka.produce(servers, made.records(first, count, start_ms))


def feed(servers: str, service: subprocess.Popen[bytes], url: str, end: float) -> None:
    """Make ten events a second until the end, and say once where to look."""
    made, began, sent, told = importlib.import_module("made"), int(1000 * time.time()), 0, False
    with getattr(made, "source", producer)(servers) as send:  # an application may have a source of its own
        while time.monotonic() < end and service.poll() is None:
            send(sent, 10, began)
            sent += 10
            if not told and is_healthy(url):
                told = True
                print(made.LOOK.format(url=url), "Ctrl-C ends everything.", sep="\n", flush=True)
            time.sleep(1)
    print(f"{sent} events were made")


def main() -> int:
    """Run until Ctrl-C or the end of the time; return the exit code of the service."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("name", choices=sorted(path.parent.name for path in FOLDER.glob("*/service.py")))
    arguments.add_argument("--seconds", type=float, default=float("inf"), help="when to end; by default at Ctrl-C")
    given = arguments.parse_args()
    folder, port = FOLDER / given.name, free_port()
    sys.path.insert(0, str(folder))
    print(f"Starting a Kafka broker and {given.name}; this takes half a minute", flush=True)
    with ks.kafka.local_broker() as broker, tempfile.TemporaryDirectory(prefix=given.name) as state:
        servers = broker.bootstrap_servers
        for topic, partitions in importlib.import_module("topology").TOPICS.items():
            ks.kafka.Admin(servers).create_topic(topic, partitions=partitions)
        service = start(folder, BOOTSTRAP_SERVERS=servers, CHECKPOINT=f"{state}/checkpoint", PORT=port)
        try:
            feed(servers, service, f"http://127.0.0.1:{port}", time.monotonic() + given.seconds)
        except KeyboardInterrupt:
            print(flush=True)
        service.send_signal(signal.SIGTERM)
        code = service.wait(60)
    print(f"{given.name} has ended, and its files are removed" if code == 0 else f"the service ended with {code}")
    return code


if __name__ == "__main__":
    sys.exit(main())
