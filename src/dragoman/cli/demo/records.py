"""The contract of the demo: a request for a loan, and the quote that answers it."""

from __future__ import annotations

from typing import Annotated

from dragoman import record
from dragoman.schema.markers import Min

REQUESTS = "loan-broker.request"
QUOTES = "loan-broker.quote"
GROUP = "loan-broker"


@record(namespace="com.example.loans", doc="A request for a loan.")
class LoanRequest:
    request_id: int
    customer: str
    amount: float
    term_in_months: Annotated[int, Min(1)]
    note: str | None = None


@record(namespace="com.example.loans", doc="What the loan would cost.")
class LoanQuote:
    request_id: int
    interest_rate: float
