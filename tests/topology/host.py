"""One host of a topology, as a process of its own: ``python -m tests.topology.host ETCD [--ahead SECONDS]``.

Commands come as lines on standard input, events go as JSON lines to standard output.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import Any

from dragoman.topology import Multipart, Offer, Request, Topology
from tests.topology.records import Price
from tests.topology.world import allowed

ADMIN = "multicast://239.255.42.0/24?interface=eth0&heartbeat=0.3"


def tell(event: str, **more: Any) -> None:
    print(json.dumps({"event": event, **more}), flush=True)


def received(price: Price, multipart: Multipart) -> None:
    tell("received", symbol=price.symbol)


async def main(etcd: str, ahead: float) -> None:
    if ahead:
        right = time.time
        time.time = lambda: right() + ahead
    users: list[Request | Offer] = []
    async with Topology([ADMIN], [etcd], registry=allowed()) as topology:
        lines = await _standard_input()
        tell("ready", framework=topology.framework)
        while line := (await lines.readline()).decode().split():
            match line:
                case ["offer", topic]:
                    offer = topology.offer(topic, received)
                    offer.on_peers(lambda count: tell("publishers", count=count))
                    users.append(offer)
                case ["request", topic]:
                    request = topology.request(topic)
                    request.on_peers(lambda count: tell("subscribers", count=count))
                    users.append(request)
                    await request.wait(60)
                case ["send", symbol]:
                    for user in users:
                        if isinstance(user, Request) and user.publisher is not None:
                            await user.publisher.send(Price(symbol, 1.0))
            tell("done", command=line[0])


async def _standard_input() -> asyncio.StreamReader:
    reader = asyncio.StreamReader()
    protocol = asyncio.StreamReaderProtocol(reader)
    await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, sys.stdin)
    return reader


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], float(sys.argv[3]) if len(sys.argv) > 3 else 0.0))
