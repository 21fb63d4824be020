"""The whole system in one process, each endpoint a client of its own, obeying the model.

``python -m loan_broker`` in the folder ``examples``.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from dragoman import Client

from .bank1 import Bank1
from .bank2 import Bank2
from .bank3 import Bank3
from .credit_bureau import CreditBureau
from .customer import Customer
from .loan_broker import LoanBroker
from .loan_statistics import LoanStatistics
from .records import LoanRequestDto

MODEL = Path(__file__).parents[1] / "models" / "loan-broker.mdsl"
ENDPOINTS = (LoanBroker, CreditBureau, Bank1, Bank2, Bank3, LoanStatistics)


@asynccontextmanager
async def running(broker: str, registry: str) -> AsyncIterator[Client]:
    """All endpoints at work; gives the customer's client."""
    async with AsyncExitStack() as stack:
        customer = Client(broker, registry, model=MODEL, as_="Customer")
        await stack.enter_async_context(customer)
        for each in ENDPOINTS:
            client = Client(customer.broker, customer.registry, [each], model=MODEL, as_=each.__name__)
            await stack.enter_async_context(client)
        yield customer


async def main() -> None:
    # The model guarantees delivery, so the broker keeps messages on disk.
    with TemporaryDirectory() as folder:
        async with running(f"embedded://{folder}", "memory://") as client:
            for number, security_number in enumerate((4711, 4742), 1):
                wish = LoanRequestDto(security_number, amount=10_000.0, termInMonths=24, requestId=number)
                reply = await Customer().ask_loan_request(client, wish)
                print(f"Customer {security_number}: quote {reply.quoteId} at {reply.interestRate:.2f} %")


if __name__ == "__main__":
    asyncio.run(main())
