"""Counts loans, and keeps an eye on what failed."""

from __future__ import annotations

from collections import Counter

from dragoman import controller, endpoint

from .channels import INVALID, UNDELIVERABLE, new_loan_requested_channel
from .records import FailedMessage, LoanNotificationDto


@controller(group="loan-statistics")
class LoanStatistics:
    def __init__(self) -> None:
        self.loans: Counter[int] = Counter()
        self.failures: list[FailedMessage] = []

    @endpoint(new_loan_requested_channel(1))
    async def on_new_loan_requested(self, message: LoanNotificationDto) -> None:
        self.loans[message.bankId] += 1

    @endpoint(UNDELIVERABLE)
    async def on_undeliverable(self, message: FailedMessage) -> None:
        self.failures.append(message)

    @endpoint(INVALID)
    async def on_invalid(self, message: FailedMessage) -> None:
        self.failures.append(message)
