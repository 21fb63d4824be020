"""Between gateway and loan broker: ``orchestrator BROKER REGISTRY VERSION``."""

from __future__ import annotations

import asyncio
import sys
import time

from dragoman import Client, EndpointOptions, RetryOptions, record
from dragoman.cli.demo.places import loan_broker
from dragoman.cli.demo.versions import second_request
from dragoman.cli.output import say
from dragoman.client.headers import EXPIRES_AT
from dragoman.core.errors import ClientError, RequestFailed
from dragoman.gateway.orchestration import on, orchestrator

RESOURCE = "service.loans"


@record
class Wish:
    """What a customer drops off. ``seconds`` is how long the wish stands."""

    security_number: int
    amount: float
    months: int
    number: int
    seconds: float | None = None


@record
class Quote:
    number: int
    rate: float


@orchestrator(RESOURCE, options=EndpointOptions(concurrency=200, retry=RetryOptions(attempts=3)))
class Loans:
    client: Client
    request: type = loan_broker("records").LoanRequestDto

    @on("process", "loan")
    async def quote(self, wish: Wish) -> Quote:
        request = self.request(
            socialSecurityNumber=wish.security_number,
            amount=wish.amount,
            termInMonths=wish.months,
            requestId=wish.number,
        )
        headers = None
        if wish.seconds is not None:
            headers = {EXPIRES_AT: str(int((time.time() + wish.seconds) * 1000))}
        try:
            reply = await self.client.request(
                loan_broker("channels").LOAN_REQUEST,
                request,
                key=str(wish.number),
                reply=loan_broker("records").LoanReplyDto,
                headers=headers,
                timeout=120.0,
            )
        except ClientError as error:
            raise RequestFailed(error.what, status=error.code) from error
        return Quote(reply.requestId, reply.interestRate)


async def main(broker: str, registry: str, version: str) -> None:
    if version == "2":
        Loans.request = second_request()
    async with Client(broker, registry, [Loans]) as client:
        say("ready")
        await client.run()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
