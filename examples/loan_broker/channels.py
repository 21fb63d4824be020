"""Channels of LoanBrokerExample. Generated from loan-broker.mdsl: do not edit."""

LOAN_REQUEST = "loan-broker.request"
"""LoanBrokerChannel: loan-broker/request"""
LOAN_REPLY = "loan-broker.reply"
"""LoanBrokerChannel: loan-broker/reply"""
CREDIT_SCORE_REQUEST = "credit-bureau.request"
"""CreditBureauChannel: credit-bureau/request"""
CREDIT_SCORE_REPLY = "credit-bureau.reply"
"""CreditBureauChannel: credit-bureau/reply"""
UNDELIVERABLE = "loan-broker.undeliverable"
"""UndeliverableChannel: loan-broker/undeliverable"""
INVALID = "loan-broker.invalid"
"""InvalidChannel: loan-broker/invalid"""


def loan_proposal_request_channel(bankId: int) -> str:
    """The channel of LoanProposalRequest for these parameters."""
    return f"banks.{bankId}.loans.request"


def loan_proposal_reply_channel(bankId: int) -> str:
    """The channel of LoanProposalReply for these parameters."""
    return f"banks.{bankId}.loans.reply"


def new_loan_requested_channel(bankId: int) -> str:
    """The channel of NewLoanRequested for these parameters."""
    return f"banks.{bankId}.loans"
