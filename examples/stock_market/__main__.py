"""Gateway, orchestrators and page in one process.

``python -m stock_market`` in the folder ``examples``, then open the page it names.
"""

from __future__ import annotations

import argparse
import asyncio
import secrets
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NamedTuple

from dragoman import Client
from dragoman.gateway.envelope import Method
from dragoman.gateway.http.app import HttpOptions
from dragoman.gateway.http.server import Server, ServerOptions
from dragoman.gateway.options import GatewayOptions
from dragoman.gateway.policy import Policy, Rule

from .prices import Prices
from .shares import Shares

PAGE = Path(__file__).with_name("page.html")

PUBLIC = Policy(
    (
        Rule(
            resource="service.shares",
            entity="movement",
            methods=frozenset({Method.SELECT}),
            # Prices are no secret: whoever knows the request's random id may have the answer.
            level="basic",
        ),
    )
)


class Places(NamedTuple):
    page: str
    gateway: str


class Page(BaseHTTPRequestHandler):
    gateway = b""

    def do_GET(self) -> None:
        body = PAGE.read_bytes().replace(b"{{gateway}}", self.gateway) if self.path == "/" else b""
        self.send_response(200 if body else 404)
        self.send_header("content-type", "text/html; charset=utf-8")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """The page's requests are of no interest."""


@contextmanager
def page_server(port: int) -> Iterator[ThreadingHTTPServer]:
    """Serves the page from a port of its own: for the gateway it comes from another origin."""
    server = ThreadingHTTPServer(("127.0.0.1", port), Page)
    thread = threading.Thread(target=server.serve_forever, name="page", daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@asynccontextmanager
async def running(port: int = 0, page_port: int = 0, slowness: float = 0.1) -> AsyncIterator[Places]:
    """Everything at work; gives the addresses of page and gateway."""
    broker = f"memory://stock-market-{secrets.token_hex(4)}"
    with page_server(page_port) as page:
        origin = f"http://127.0.0.1:{page.server_port}"
        options = ServerOptions(
            gateway=GatewayOptions(
                policy=PUBLIC,
                secret=secrets.token_bytes(32),
                store="sqlite://:memory:",
                broker=broker,
                registry="memory://",
            ),
            http=HttpOptions(origins=(origin,)),
            port=port,
        )
        with Server(options) as gateway:
            Page.gateway = gateway.url.encode()
            registry = gateway.gateway.client.registry
            async with Client(broker, registry, [Shares, Prices(slowness)]):
                yield Places(origin, gateway.url)


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=8083, help="The gateway's port.")
    parser.add_argument("--page-port", type=int, default=8084, help="The page's port.")
    parser.add_argument("--slowness", type=float, default=0.2, help="How slow exchanges are.")
    given = parser.parse_args()
    async with running(given.port, given.page_port, given.slowness) as places:
        print(f"Open {places.page}; the gateway is {places.gateway}. Stop with Ctrl-C.", flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except KeyboardInterrupt:
        print("Stopped.")
