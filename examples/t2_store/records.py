"""The messages of the store, and what its saga remembers."""

from __future__ import annotations

from enum import Enum

from dragoman import record


@record(namespace="store.t2", doc="What the saga of one purchase has to know.")
class Purchase:
    session_id: str
    product: str
    units: int
    card_number: str
    total: int
    order_id: int = 0


class InventoryVerb(Enum):
    RESERVE = "RESERVE"
    RELEASE = "RELEASE"
    COMMIT = "COMMIT"


@record(namespace="store.t2")
class InventoryCommand:
    verb: InventoryVerb
    session_id: str
    product: str
    units: int


@record(namespace="store.t2")
class InventoryReply:
    units_left: int


class OrderVerb(Enum):
    CREATE = "CREATE"
    REJECT = "REJECT"


@record(namespace="store.t2")
class OrderCommand:
    verb: OrderVerb
    session_id: str


@record(namespace="store.t2")
class OrderReply:
    order_id: int


@record(namespace="store.t2")
class PaymentCommand:
    session_id: str
    card_number: str
    total: int


@record(namespace="store.t2")
class PaymentReply:
    balance: int


@record(namespace="store.t2")
class OutOfStock(Exception):
    product: str
    units_left: int


@record(namespace="store.t2")
class PaymentRefused(Exception):
    reason: str
