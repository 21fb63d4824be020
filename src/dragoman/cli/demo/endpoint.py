"""One endpoint of the loan broker as a process: ``endpoint BROKER REGISTRY NAME VERSION``."""

from __future__ import annotations

import asyncio
import sys

from dragoman import Client
from dragoman.cli.demo.places import loan_broker, model
from dragoman.cli.demo.versions import second_loan_broker
from dragoman.cli.output import say

_MODULES = {
    "LoanBroker": "loan_broker",
    "CreditBureau": "credit_bureau",
    "Bank1": "bank1",
    "Bank2": "bank2",
    "Bank3": "bank3",
    "LoanStatistics": "loan_statistics",
}
NAMES = tuple(_MODULES)


async def main(broker: str, registry: str, name: str, version: str) -> None:
    controller = getattr(loan_broker(_MODULES[name]), name)
    if name == "LoanBroker" and version == "2":
        controller = second_loan_broker()
    async with Client(broker, registry, [controller], model=model(), as_=name) as client:
        say("ready")
        await client.run()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
