"""Handles loan requests. Start as many as you like: they share the work, and take over when one dies."""

from __future__ import annotations

import asyncio

from records import LoanReply, LoanRequest

from dragoman import Client, controller, endpoint


@controller(group="loan-broker")
class LoanBroker:
    @endpoint("loan-broker.request", reply_to="loan-broker.reply")
    async def on_request(self, request: LoanRequest) -> LoanReply:
        await asyncio.sleep(0.002)  # Asking the banks takes a moment.
        print(f"handled {request.request_id}", flush=True)
        return LoanReply(request.request_id, 3.4 if request.term_in_months <= 24 else 4.1)


async def main() -> None:
    async with Client(controllers=[LoanBroker]) as client:
        print("ready", flush=True)
        await client.run()


if __name__ == "__main__":
    asyncio.run(main())
