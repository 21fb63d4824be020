"""Sends loan requests, then asks for one more and waits for the answer."""

from __future__ import annotations

import asyncio
import sys

from records import LoanReply, LoanRequest

from dragoman import Client


async def main(count: int) -> None:
    async with Client() as client:
        for number in range(count):
            request = LoanRequest(number, 1_000.0 * (number + 1), 12 + number % 36)
            await client.publish("loan-broker.request", request, key=number)
        print(f"published {count}", flush=True)
        last = LoanRequest(count, 10_000.0, 24, note="urgent")
        reply = await client.request("loan-broker.request", last, reply=LoanReply, timeout=120)
        print(f"request {reply.request_id} costs {reply.interest_rate} %", flush=True)


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 100))
