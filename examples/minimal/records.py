"""What travels: plain classes. Their schemas become the contracts of the channels."""

from __future__ import annotations

from dragoman import record


@record(namespace="com.mycorp", doc="A request for a loan.")
class LoanRequest:
    request_id: int
    amount: float
    term_in_months: int
    note: str | None = None


@record(namespace="com.mycorp", doc="What the loan would cost.")
class LoanReply:
    request_id: int
    interest_rate: float
