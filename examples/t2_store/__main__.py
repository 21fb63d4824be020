"""One process of the store: ``python -m t2_store front|inventory|order|payment FOLDER`` in ``examples``.

All of them share the broker and the registry in the folder; each has a database of its own there.
"""

from __future__ import annotations

import asyncio
import socket
import sys
from pathlib import Path

from dragoman import Client
from dragoman.adapters.sqlite import SqliteDatabase

from . import inventory, order, payment

PARTICIPANTS = {
    "inventory": (inventory.inventory, inventory.TABLES),
    "order": (order.order, order.TABLES),
    "payment": (payment.payment, payment.TABLES),
}


async def participate(name: str, folder: Path) -> None:
    endpoint, tables = PARTICIPANTS[name]
    database = SqliteDatabase(f"sqlite://{folder / name}.db")
    with database.transaction() as tx:
        for statement in tables:
            tx.execute(statement)
    async with Client(*shared(folder), [endpoint], database=database) as client:
        print("ready", flush=True)
        await client.run()


async def serve(folder: Path, port: int) -> None:
    """Port 0 is any free one. Who comes before the store is open waits at the door."""
    import uvicorn  # Participants need neither this nor FastAPI.

    from .front import front

    listening = socket.create_server(("127.0.0.1", port))
    app = front(*shared(folder), f"sqlite://{folder / 'front.db'}")
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
    print(f"ready http://127.0.0.1:{listening.getsockname()[1]}", flush=True)
    await server.serve(sockets=[listening])


def shared(folder: Path) -> tuple[str, str]:
    return f"embedded://{folder / 'broker'}", f"sqlite://{folder / 'registry.db'}"


def main() -> None:
    if len(sys.argv) < 3 or sys.argv[1] not in ("front", *PARTICIPANTS):
        sys.exit(__doc__)
    name, folder = sys.argv[1], Path(sys.argv[2]).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    port = int(sys.argv[3]) if len(sys.argv) > 3 else 0
    asyncio.run(serve(folder, port) if name == "front" else participate(name, folder))


if __name__ == "__main__":
    main()
