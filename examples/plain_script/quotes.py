"""A script without any framework: it handles messages, asks itself a few questions, and ends.

``python quotes.py``: no server is needed, nothing is left behind.
"""

from __future__ import annotations

import asyncio

from dragoman import Client, endpoint, record


@record
class Question:
    amount: int


@record
class Quote:
    amount: int
    rate: float


@endpoint("quotes")
async def quote(question: Question) -> Quote:
    return Quote(question.amount, 3.4 if question.amount < 10_000 else 2.9)


async def main() -> None:
    async with Client("memory://", "memory://", [quote]) as client:
        questions = [Question(amount) for amount in (1_000, 10_000, 100_000)]
        asked = (client.request("quotes", question, reply=Quote) for question in questions)
        for found in await asyncio.gather(*asked):
            print(f"{found.amount} at {found.rate} %")


if __name__ == "__main__":
    asyncio.run(main())
