"""Knows how customers have paid in the past."""

from __future__ import annotations

from dragoman import controller, endpoint

from .channels import CREDIT_SCORE_REPLY, CREDIT_SCORE_REQUEST
from .records import CreditBureauReplyDto, CreditBureauRequestDto, CreditEntry


@controller(group="credit-bureau")
class CreditBureau:
    @endpoint(CREDIT_SCORE_REQUEST, reply_to=CREDIT_SCORE_REPLY)
    async def on_credit_score_request(self, message: CreditBureauRequestDto) -> CreditBureauReplyDto:
        """A score from 50 to 99, and a year of history for each ten points."""
        score = 50 + message.socialSecurityNumber % 50
        history = [CreditEntry(year=2020 + year, rating="paid") for year in range(score // 10)]
        return CreditBureauReplyDto(message.socialSecurityNumber, float(score), message.requestId, history)
