"""A second version of the loan request: with a currency. First as it should not be, then as it should."""

from __future__ import annotations

import json
from typing import Any

from dragoman import endpoint, record
from dragoman.cli.demo.places import loan_broker
from dragoman.core.format import Format
from dragoman.core.loading import FORMATS, load
from dragoman.core.schema import Schema

CURRENCY = "EUR"


def second_request() -> type:
    """The request's class with a currency, which older requests did not have."""
    first = loan_broker("records").LoanRequestDto

    @record(name="LoanRequestDto", namespace="LoanBrokerExample")
    class LoanRequest(first):  # type: ignore[misc, valid-type]
        currency: str = CURRENCY

    return LoanRequest


def second_loan_broker() -> type:
    """The loan broker that takes requests of both versions."""
    channels, broker = loan_broker("channels"), loan_broker("loan_broker").LoanBroker
    request, reply = second_request(), loan_broker("records").LoanReplyDto

    class SecondLoanBroker(broker):  # type: ignore[misc, valid-type]
        async def on_loan_request(self, message: Any) -> Any:
            return await broker.on_loan_request(self, message)

    # The classes are made here, so annotations cannot name them.
    SecondLoanBroker.on_loan_request.__annotations__.update({"message": request, "return": reply})
    mark = endpoint(channels.LOAN_REQUEST, reply_to=channels.LOAN_REPLY)
    SecondLoanBroker.on_loan_request = mark(SecondLoanBroker.on_loan_request)  # type: ignore[method-assign]
    return SecondLoanBroker


def second_schema(*, with_default: bool) -> Schema:
    avro: Format = load(FORMATS, "AVRO")()
    text = avro.schema_of(second_request())
    if with_default:
        return Schema("AVRO", text)
    parsed = json.loads(text)
    for each in parsed["fields"]:
        if each["name"] == "currency":
            del each["default"]
    return Schema("AVRO", json.dumps(parsed))
