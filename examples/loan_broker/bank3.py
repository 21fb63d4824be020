"""Bank number 3."""

from __future__ import annotations

from dragoman import controller, endpoint

from .channels import loan_proposal_reply_channel, loan_proposal_request_channel
from .records import BankLoanReply, BankLoanRequest

NUMBER = 3


@controller(group="bank3")
class Bank3:
    @endpoint(loan_proposal_request_channel(NUMBER), reply_to=loan_proposal_reply_channel(NUMBER))
    async def on_loan_proposal_request(self, message: BankLoanRequest) -> BankLoanReply:
        """The worse the score, the higher the rate."""
        rate = 3.0 + (100 - message.creditScore) / 20
        return BankLoanReply(3 * 1000 + message.requestId, rate, message.requestId)
