"""Deploys the topology, and answers questions about its minutes over HTTP: ``python service.py``."""

from __future__ import annotations

import os

from topology import CONFIG, build

import kstreamnb as ks


def main() -> None:
    """Run until SIGTERM or SIGINT; an error of the query ends the process."""
    query = ks.deploy(
        build(),
        bootstrap_servers=os.environ["BOOTSTRAP_SERVERS"],
        checkpoint=os.environ["CHECKPOINT"],
        config=CONFIG,
    )
    host, port = os.environ.get("HOST", "127.0.0.1"), int(os.environ.get("PORT", "8080"))
    with ks.monitoring.serve(query, port, host=host):  # /health and /stores
        query.await_termination()


if __name__ == "__main__":
    main()
