"""Deploys the topology, and shows its alerts on a page: ``python service.py``."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import uvicorn
from fastapi import FastAPI
from fastapi.responses import FileResponse
from fastapi_offline import FastAPIOffline
from topology import build

import kstreamnb as ks

PAGE = Path(__file__).with_name("dashboard.html")


def service(application: Any) -> FastAPI:
    """Return the service over a running query, or over a test driver."""
    app = FastAPIOffline(title="Fraud alerts")

    @app.get("/")
    def dashboard() -> FileResponse:
        """Return the page, which reads the stores every two seconds."""
        return FileResponse(PAGE)

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
