"""Lends to the creditworthy only."""

from __future__ import annotations

from dragoman import Client, controller, endpoint

from .channels import loan_proposal_reply_channel, loan_proposal_request_channel, new_loan_requested_channel
from .records import BankLoanReply, BankLoanRequest, LoanNotificationDto

NUMBER = 1


@controller(group="bank1")
class Bank1:
    client: Client

    @endpoint(loan_proposal_request_channel(NUMBER), reply_to=loan_proposal_reply_channel(NUMBER))
    async def on_loan_proposal_request(self, message: BankLoanRequest) -> BankLoanReply:
        """The best rate there is, and a word to the statistics. The model has selected them."""
        await self.send_new_loan_requested(LoanNotificationDto(bankId=NUMBER, amount=message.amount))
        return BankLoanReply(quoteId=1000 + message.requestId, interestRate=2.1, requestId=message.requestId)

    async def send_new_loan_requested(self, message: LoanNotificationDto) -> None:
        await self.client.publish(new_loan_requested_channel(NUMBER), message)
