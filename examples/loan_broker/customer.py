"""Wants a loan."""

from __future__ import annotations

from dragoman import Client

from .channels import LOAN_REQUEST
from .records import LoanReplyDto, LoanRequestDto


class Customer:
    async def ask_loan_request(self, client: Client, message: LoanRequestDto) -> LoanReplyDto:
        return await client.request(LOAN_REQUEST, message, reply=LoanReplyDto)
