"""Record classes that use every type there is."""

from __future__ import annotations

import datetime
import enum
import uuid
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Annotated

import msgspec
import pydantic

from dragoman.schema import markers
from dragoman.schema.markers import (
    Aliases,
    Doc,
    Duration,
    Fallback,
    Float,
    Int,
    Length,
    Max,
    Min,
    Pattern,
    Unit,
)
from dragoman.schema.records import named, record


@named(namespace="shop", doc="How it is paid.")
class Payment(enum.Enum):
    CASH = 1
    CARD = 2


@record(namespace="shop")
class Card:
    number: Annotated[str, Pattern("^[0-9]+$"), Length(4, 16)]


@record(namespace="shop")
class Voucher:
    code: str
    until: datetime.date


@record(namespace="shop", doc="What somebody wants.", aliases=["shop.Request"])
class Order:
    id: int
    count: Annotated[Int, Min(1)]
    price: Annotated[Decimal, markers.decimal(10, 2), Min(Decimal("0.01"))]
    weight: Float
    share: Annotated[float, Min(0), Max(1, exclusive=True), Doc("Of the whole.")]
    placed: datetime.datetime
    wanted: markers.LocalTimestampMillis
    day: Annotated[datetime.date, Min(datetime.date(2000, 1, 1))]
    clock: datetime.time
    took: datetime.timedelta
    lasts: Duration
    key: uuid.UUID
    text_key: Annotated[str, markers.uuid()]
    seen: Annotated[int, markers.timestamp(Unit.NANOS)]
    payment: Payment
    digest: Annotated[bytes, markers.fixed(4)]
    picture: Annotated[bytes, Length(0, 100)]
    tags: Annotated[list[str], Length(0, 5)]
    marks: set[int]
    prices: dict[str, float]
    by: Card | Voucher | None
    payments: Annotated[Payment, Fallback(Payment.CASH)] = Payment.CARD
    parent: Order | None = None
    note: Annotated[str | None, Aliases("remark")] = None
    lines: list[Card] = field(default_factory=list)
    amount: int | str = 3
    ready: bool = False


@dataclass
class Checked:
    low: int
    high: int

    def __post_init__(self) -> None:
        if self.low > self.high:
            raise ValueError("low is above high")


class Point(msgspec.Struct):
    x: int
    y: Annotated[int, msgspec.Meta(ge=0)] = 0


class Person(pydantic.BaseModel):
    name: str = pydantic.Field(min_length=1)
    age: int | None = None


def an_order() -> Order:
    return Order(
        id=1,
        count=2,
        price=Decimal("19.90"),
        weight=0.5,
        share=0.25,
        placed=datetime.datetime(2026, 1, 2, 3, 4, 5, 678901, datetime.UTC),
        wanted=datetime.datetime(2026, 1, 2, 3, 4, 5, 678000),
        day=datetime.date(2026, 1, 2),
        clock=datetime.time(3, 4, 5, 6),
        took=datetime.timedelta(days=1, microseconds=1500),
        lasts=Duration(1, 2, 3),
        key=uuid.UUID(int=7),
        text_key=str(uuid.UUID(int=8)),
        seen=2**62,
        payment=Payment.CASH,
        digest=b"\x00\x01\x02\xff",
        picture=b"\xff" * 7,
        tags=["a", "b"],
        marks={3, 1, 2},
        prices={"eur": 1.5},
        by=Voucher("x", datetime.date(2026, 1, 3)),
        lines=[Card("1234")],
    )
