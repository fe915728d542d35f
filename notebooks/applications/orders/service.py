"""Deploys the topology, and answers questions about orders over HTTP: ``python service.py``."""

from __future__ import annotations

import os
import threading
from typing import Any

import uvicorn
from fastapi import FastAPI, HTTPException
from fastapi_offline import FastAPIOffline
from topology import build

import kstreamnb as ks


def service(application: Any) -> FastAPI:
    """Return the service over a running query, or over a test driver."""
    app = FastAPIOffline(title="Orders")

    @app.get("/orders/{id}")
    def order(id: str) -> dict[str, Any]:
        """Return an order with its status: pending, validated or rejected."""
        found: dict[str, Any] | None = application.store("orders").get(id)
        if found is None:
            raise HTTPException(404, f"order {id} is unknown")
        return {"id": id, **found}

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
