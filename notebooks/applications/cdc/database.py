"""A PostgreSQL of this application alone, for as long as a block runs: for the demonstration and the tests."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

DEBIAN = Path("/usr/lib/postgresql")
TABLE = "CREATE TABLE products (id bigint PRIMARY KEY, name text NOT NULL, cents bigint NOT NULL)"


def programs() -> Path:
    """Return the folder of PostgreSQL's programs.

    Raises: FileNotFoundError that says what to install, if PostgreSQL or wal2json is missing.
    """
    found = sorted(DEBIAN.glob("*/bin/initdb"))
    if not found:
        raise FileNotFoundError("needs PostgreSQL: install the packages postgresql and postgresql-*-wal2json")
    folder = found[-1].parent
    if not (folder.parent / "lib" / "wal2json.so").exists():
        raise FileNotFoundError(f"needs wal2json: install the package postgresql-{folder.parent.name}-wal2json")
    return folder


@contextmanager
def local_postgres() -> Iterator[str]:
    """Start a server that decodes its log, with the table of products; yield its connection string."""
    folder, data = programs(), tempfile.mkdtemp(prefix="postgres-")
    user = "postgres" if os.geteuid() == 0 else None  # PostgreSQL refuses to run as root
    if user is not None:
        shutil.chown(data, user)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]

    def run(program: str, *arguments: str) -> None:
        subprocess.run(
            [folder / program, *arguments], check=True, user=user, cwd=data, stdout=subprocess.DEVNULL
        )

    try:
        run("initdb", "--pgdata", f"{data}/data", "--auth=trust", "--username=postgres", "--no-sync")
        local = "-c listen_addresses=127.0.0.1 -c unix_socket_directories=''"
        options = f"-p {port} {local} -c wal_level=logical -c fsync=off"
        run("pg_ctl", "start", "--pgdata", f"{data}/data", "--wait", "--log", f"{data}/log", "--options", options)
        address = f"host=127.0.0.1 port={port} user=postgres dbname=postgres"
        run("psql", "--quiet", address, "--command", TABLE)
        yield address
    finally:
        if Path(data, "data", "postmaster.pid").exists():
            run("pg_ctl", "stop", "--pgdata", f"{data}/data", "--mode", "immediate")
        shutil.rmtree(data)
