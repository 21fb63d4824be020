"""Records of LoanBrokerExample. Generated from loan-broker.mdsl: do not edit."""

from __future__ import annotations

from dataclasses import field

from dragoman import record
from dragoman.schema.markers import Double, Int


@record(namespace="LoanBrokerExample")
class LoanRequestDto:
    socialSecurityNumber: Int
    amount: Double
    termInMonths: Int
    requestId: Int


@record(namespace="LoanBrokerExample")
class LoanReplyDto:
    quoteId: Int
    interestRate: Double
    requestId: Int


@record(namespace="LoanBrokerExample")
class CreditBureauRequestDto:
    socialSecurityNumber: Int
    requestId: Int


@record(namespace="LoanBrokerExample")
class CreditEntry:
    year: Int
    rating: str


@record(namespace="LoanBrokerExample")
class CreditBureauReplyDto:
    socialSecurityNumber: Int
    creditScore: Double
    requestId: Int
    creditHistory: list[CreditEntry] = field(default_factory=list)


@record(namespace="LoanBrokerExample")
class BankLoanRequest:
    creditScore: Int
    creditHistoryLength: Int
    amount: Double
    termInMonths: Int
    requestId: Int


@record(namespace="LoanBrokerExample")
class BankLoanReply:
    quoteId: Int
    interestRate: Double
    requestId: Int


@record(namespace="LoanBrokerExample")
class LoanNotificationDto:
    bankId: Int
    amount: Double
    timestamp: str | None = None


@record(namespace="LoanBrokerExample")
class CommonHeaders:
    brokerId: Int


@record(namespace="LoanBrokerExample")
class FailedMessage:
    channel: str
    reason: str
    payload: bytes
