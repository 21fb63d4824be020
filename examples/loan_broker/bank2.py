"""Bank number 2."""

from __future__ import annotations

from dragoman import controller, endpoint

from .channels import loan_proposal_reply_channel, loan_proposal_request_channel
from .records import BankLoanReply, BankLoanRequest

NUMBER = 2


@controller(group="bank2")
class Bank2:
    @endpoint(loan_proposal_request_channel(NUMBER), reply_to=loan_proposal_reply_channel(NUMBER))
    async def on_loan_proposal_request(self, message: BankLoanRequest) -> BankLoanReply:
        """The worse the score, the higher the rate."""
        rate = 2.0 + (100 - message.creditScore) / 20
        return BankLoanReply(2 * 1000 + message.requestId, rate, message.requestId)
