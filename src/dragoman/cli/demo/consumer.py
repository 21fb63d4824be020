"""A consumer process of the demo: ``python -m dragoman.cli.demo.consumer BROKER REGISTRY LEDGER``."""

from __future__ import annotations

import asyncio
import os
import sys

from dragoman import Client, ClientOptions, EndpointOptions, RetryOptions, controller, endpoint
from dragoman.cli.demo.records import GROUP, QUOTES, REQUESTS, LoanQuote, LoanRequest

QUICKLY = EndpointOptions(retry=RetryOptions(attempts=3, delay=0.01))


@controller(group=GROUP)
class LoanBroker:
    """Answers requests, and writes down which: the proof that none is left out."""

    def __init__(self, ledger: str) -> None:
        self._ledger = os.open(ledger, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    @endpoint(REQUESTS, reply_to=QUOTES, options=QUICKLY)
    async def on_request(self, request: LoanRequest) -> LoanQuote:
        if request.amount < 0:
            raise ValueError("nobody borrows less than nothing")
        os.write(self._ledger, f"{request.request_id}\n".encode())
        return LoanQuote(request.request_id, 2.0 + request.term_in_months / 12)


async def main(broker: str, registry: str, ledger: str) -> None:
    options = ClientOptions(name=f"consumer-{os.getpid()}")
    async with Client(broker, registry, [LoanBroker(ledger)], options=options) as client:
        print("ready", flush=True)  # noqa: T201 -- the demo waits for this line
        await client.run()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
