"""Passes bytes on between two addresses: ``python link.py NODE BROKER PORT``. Suspended, it is a line that is cut."""

from __future__ import annotations

import asyncio
import sys


async def main(node: str, broker: str, port: int) -> None:
    """Listen until the process is killed."""

    async def pump(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        while data := await source.read(1 << 16):
            target.write(data)
            await target.drain()
        target.close()

    async def accept(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        answers, calls = await asyncio.open_connection(broker, port)
        await asyncio.gather(pump(source, calls), pump(answers, target), return_exceptions=True)

    server = await asyncio.start_server(accept, node, port)
    print("ready", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
