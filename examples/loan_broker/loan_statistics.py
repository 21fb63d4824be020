"""Counts loans, and keeps an eye on what failed."""

from __future__ import annotations

from collections import Counter
from typing import Annotated

from dragoman import Headers, controller, endpoint

from .channels import INVALID, UNDELIVERABLE, new_loan_requested_channel
from .records import LoanNotificationDto


@controller(group="loan-statistics")
class LoanStatistics:
    def __init__(self) -> None:
        self.loans: Counter[int] = Counter()
        self.failures: Counter[str] = Counter()
        """By the error's code."""

    @endpoint(new_loan_requested_channel(1))
    async def on_new_loan_requested(self, message: LoanNotificationDto) -> None:
        self.loans[message.bankId] += 1

    @endpoint(UNDELIVERABLE)
    async def on_undeliverable(self, message: bytes, headers: Annotated[dict[str, bytes], Headers]) -> None:
        """The frame as it was sent; the headers tell why it is here."""
        self.failures[headers.get("dragoman-error-code", b"unknown").decode()] += 1

    @endpoint(INVALID)
    async def on_invalid(self, message: bytes, headers: Annotated[dict[str, bytes], Headers]) -> None:
        self.failures[headers.get("dragoman-error-code", b"unknown").decode()] += 1
