"""The saga of a purchase: reserve, order, pay, hand over.

Until the payment is done everything can be undone. Once it is done nothing is: the reservation is committed,
however often that has to be tried.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from dragoman import RetryOptions, Saga, Step

from .records import InventoryCommand, InventoryVerb, OrderCommand, OrderVerb, PaymentCommand, Purchase

PATIENT = RetryOptions(attempts=1000, delay=0.2, longest=2.0)


def reserve(purchase: Purchase) -> InventoryCommand:
    return _inventory(InventoryVerb.RESERVE, purchase)


def release(purchase: Purchase) -> InventoryCommand:
    return _inventory(InventoryVerb.RELEASE, purchase)


def commit(purchase: Purchase) -> InventoryCommand:
    return _inventory(InventoryVerb.COMMIT, purchase)


def create_order(purchase: Purchase) -> OrderCommand:
    return OrderCommand(OrderVerb.CREATE, purchase.session_id)


def reject_order(purchase: Purchase) -> OrderCommand:
    return OrderCommand(OrderVerb.REJECT, purchase.session_id)


def remember_order(purchase: Purchase, reply: dict[str, Any]) -> Purchase:
    return replace(purchase, order_id=reply["order_id"])


def pay(purchase: Purchase) -> PaymentCommand:
    return PaymentCommand(purchase.session_id, purchase.card_number, purchase.total)


def _inventory(verb: InventoryVerb, purchase: Purchase) -> InventoryCommand:
    return InventoryCommand(verb, purchase.session_id, purchase.product, purchase.units)


PURCHASE = Saga(
    "purchase",
    Purchase,
    (
        Step("reservation", "t2.inventory", reserve, compensation=release, retry=PATIENT, timeout=5.0),
        Step(
            "order",
            "t2.order",
            create_order,
            compensation=reject_order,
            take=remember_order,
            retry=PATIENT,
            timeout=5.0,
        ),
        Step("payment", "t2.payment", pay, pivot=True, retry=PATIENT, timeout=5.0),
        Step("handover", "t2.inventory", commit, retry=PATIENT, timeout=5.0),
    ),
)
