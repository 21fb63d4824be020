"""Finds the best quote."""

from __future__ import annotations

import asyncio

from dragoman import Client, EndpointOptions, RetryOptions, controller, endpoint
from dragoman.core.errors import ClientError

from .channels import (
    CREDIT_SCORE_REQUEST,
    LOAN_REPLY,
    LOAN_REQUEST,
    loan_proposal_request_channel,
)
from .records import (
    BankLoanReply,
    BankLoanRequest,
    CreditBureauReplyDto,
    CreditBureauRequestDto,
    LoanReplyDto,
    LoanRequestDto,
)

NUMBER = "1"
"""The identifier of this broker."""
BANKS = (1, 2, 3)
PATIENCE = 1.0
"""Seconds that banks have for their proposals. One that does not want the customer says nothing."""
LATEST = 20.0
"""Seconds after which a customer without any proposal is told so."""


class NoProposal(Exception):
    pass


MANY = EndpointOptions(concurrency=100, retry=RetryOptions(never=(ValueError, NoProposal)))
"""Most of the time it waits for banks, so it may as well do so for many customers at once."""


@controller(group="loan-broker", options=MANY)
class LoanBroker:
    client: Client

    @endpoint(LOAN_REQUEST, reply_to=LOAN_REPLY)
    async def on_loan_request(self, message: LoanRequestDto) -> LoanReplyDto:
        """Ask the credit bureau, then all banks at once, and take the lowest rate."""
        if message.amount <= 0:
            raise ValueError("A loan needs an amount.")
        credit = await self.ask_credit_score_request(
            CreditBureauRequestDto(message.socialSecurityNumber, message.requestId)
        )
        wish = BankLoanRequest(
            creditScore=int(credit.creditScore),
            creditHistoryLength=len(credit.creditHistory),
            amount=message.amount,
            termInMonths=message.termInMonths,
            requestId=message.requestId,
        )
        best = min(await self.proposals(wish), key=lambda each: each.interestRate)
        return LoanReplyDto(best.quoteId, best.interestRate, message.requestId)

    async def ask_credit_score_request(self, message: CreditBureauRequestDto) -> CreditBureauReplyDto:
        headers = {"brokerId": NUMBER}
        return await self.client.request(
            CREDIT_SCORE_REQUEST, message, reply=CreditBureauReplyDto, headers=headers
        )

    async def proposals(self, wish: BankLoanRequest) -> list[BankLoanReply]:
        """Those that come in time. If none does, the first that comes."""
        asked = [asyncio.create_task(self.ask_loan_proposal_request(bank, wish)) for bank in BANKS]
        try:
            done, late = await asyncio.wait(asked, timeout=PATIENCE)
            while not (quotes := [quote for each in done if (quote := each.result()) is not None]):
                if not late:
                    raise NoProposal("No bank has answered.")
                done, late = await asyncio.wait(late, return_when=asyncio.FIRST_COMPLETED)
            return quotes
        finally:
            for each in asked:
                each.cancel()

    async def ask_loan_proposal_request(self, bank: int, message: BankLoanRequest) -> BankLoanReply | None:
        channel = loan_proposal_request_channel(bank)
        try:
            return await self.client.request(channel, message, reply=BankLoanReply, timeout=LATEST)
        except ClientError:
            return None
