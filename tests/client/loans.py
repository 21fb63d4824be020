"""The records of a loan broker, in several versions."""

from __future__ import annotations

from dragoman import record


@record(namespace="com.mycorp", doc="A request for a loan.")
class LoanRequest:
    request_id: int
    amount: float
    term_in_months: int
    note: str | None = None


@record(namespace="com.mycorp")
class LoanReply:
    request_id: int
    interest_rate: float


@record(namespace="com.mycorp")
class LoanKey:
    customer: str
    region: int


@record(namespace="com.mycorp", name="Quote")
class QuoteV1:
    bank: str


@record(namespace="com.mycorp", name="Quote")
class QuoteV2:
    bank: str
    rate: float = 1.5


@record(namespace="com.mycorp", name="Quote")
class QuoteV3:
    bank: str
    rate: float = 1.5
    fee: float = 0.0


@record(namespace="com.mycorp", name="Quote")
class QuoteElsewhere:
    bank: int
