"""The whole system in one process: ``python -m loan_broker`` in the folder ``examples``."""

from __future__ import annotations

import asyncio

from dragoman import Client

from .bank1 import Bank1
from .bank2 import Bank2
from .bank3 import Bank3
from .credit_bureau import CreditBureau
from .customer import Customer
from .loan_broker import LoanBroker
from .loan_statistics import LoanStatistics
from .records import LoanRequestDto

ENDPOINTS = (LoanBroker, CreditBureau, Bank1, Bank2, Bank3, LoanStatistics)


async def main() -> None:
    async with Client(broker="memory://loans", registry="memory://", controllers=ENDPOINTS) as client:
        for number, security_number in enumerate((4711, 4742), 1):
            wish = LoanRequestDto(security_number, amount=10_000.0, termInMonths=24, requestId=number)
            reply = await Customer().ask_loan_request(client, wish)
            print(f"Customer {security_number}: quote {reply.quoteId} at {reply.interestRate:.2f} %")


if __name__ == "__main__":
    asyncio.run(main())
