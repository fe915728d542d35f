"""Deploys the topology, and searches its table over HTTP: ``python service.py``."""

from __future__ import annotations

import os
import threading
from typing import Any

import uvicorn
from fastapi import FastAPI, HTTPException
from fastapi_offline import FastAPIOffline
from topology import build, words

import kstreamnb as ks

Row = dict[str, Any]


def service(application: Any) -> FastAPI:
    """Return the service over a running query, or over a test driver."""
    app = FastAPIOffline(title="Products")

    def row(id: str) -> Row | None:
        """Return a row, None if it never existed or was deleted."""
        found = application.store("rows").get(id)
        return found["row"] if found else None

    @app.get("/products")
    def search(q: str) -> list[Row]:
        """Return the products whose name has every word of a question."""
        index = application.store("words")
        ids = [set(index.get(word) or ()) for word in words(q)]
        found = map(row, sorted(set.intersection(*ids), key=int)) if ids else ()
        return [each for each in found if each is not None]

    @app.get("/products/{id}")
    def product(id: str) -> Row:
        """Return one product."""
        found = row(id)
        if found is None:
            raise HTTPException(404, f"product {id} is unknown")
        return found

    app.mount("/", ks.monitoring.StoreApp(application))  # /health and /stores
    return app


def main() -> None:
    """Run until SIGTERM or SIGINT; an error of the query ends the process."""
    query = ks.deploy(
        build(), bootstrap_servers=os.environ["BOOTSTRAP_SERVERS"], checkpoint=os.environ["CHECKPOINT"]
    )
    address = {"host": os.environ.get("HOST", "127.0.0.1"), "port": int(os.environ.get("PORT", "8080"))}
    server = uvicorn.Server(uvicorn.Config(service(query), log_level="warning", **address))
    answering = threading.Thread(target=server.run, daemon=True)
    answering.start()
    try:
        query.await_termination()
    finally:
        server.should_exit = True
        answering.join()


if __name__ == "__main__":
    main()
