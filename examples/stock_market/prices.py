"""The orchestrator ``service.prices``: closing prices, as the exchanges have them."""

from __future__ import annotations

import asyncio
import csv
from datetime import date
from decimal import Decimal
from pathlib import Path

from dragoman.core.errors import RequestFailed
from dragoman.gateway.orchestration import on, orchestrator

from .records import Price, PriceWanted

FILE = Path(__file__).with_name("prices.csv")


def read_prices() -> dict[str, list[Price]]:
    """By share, the latest first."""
    found: dict[str, list[Price]] = {}
    with FILE.open(newline="") as file:
        for row in csv.DictReader(file):
            price = Price(row["share"], date.fromisoformat(row["day"]), Decimal(row["close"]))
            found.setdefault(price.share, []).append(price)
    for prices in found.values():
        prices.sort(key=lambda price: price.day, reverse=True)
    return found


@orchestrator("service.prices")
class Prices:
    """``slowness`` is how many seconds an exchange takes for each letter of a share's name: they differ."""

    def __init__(self, slowness: float = 0.0) -> None:
        self._prices = read_prices()
        self._slowness = slowness

    @on("select", "price", timeout=10)
    async def price(self, wanted: PriceWanted) -> Price:
        await asyncio.sleep(self._slowness * len(wanted.share))
        try:
            return self._prices[wanted.share][wanted.days_ago]
        except (KeyError, IndexError):
            raise RequestFailed(f"There is no price of {wanted.share}.", status="Not Found") from None
