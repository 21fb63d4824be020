"""What is asked and answered."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Annotated

from dragoman import record
from dragoman.schema.markers import Length, Max, Min, decimal

Share = Annotated[str, Length(1, 8)]
Amount = Annotated[Decimal, decimal(12, 2)]


@record(namespace="stock_market", doc="How did this share move in so many days of trading?")
class MovementWanted:
    share: Share
    days: Annotated[int, Min(1), Max(20)] = 5


@record(namespace="stock_market")
class PriceWanted:
    share: Share
    days_ago: Annotated[int, Min(0), Max(20)]


@record(namespace="stock_market")
class Price:
    share: str
    day: date
    close: Amount


@record(namespace="stock_market")
class Movement:
    share: str
    first: Price
    last: Price
    change: Amount
    percent: Annotated[Decimal, decimal(8, 2)]
