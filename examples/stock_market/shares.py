"""The orchestrator ``service.shares``: asks for two prices at once, and compares them."""

from __future__ import annotations

from decimal import Decimal

from dragoman.gateway.orchestration import Call, on, orchestrator

from .records import Movement, MovementWanted, Price, PriceWanted

CENT = Decimal("0.01")


@orchestrator("service.shares")
class Shares:
    @on("select", "movement", timeout=20)
    async def movement(self, wanted: MovementWanted, call: Call) -> Movement:
        first, last = await call.join(
            *(
                call.ask(
                    "service.prices", "select", "price", PriceWanted(wanted.share, days_ago), reply=Price
                )
                for days_ago in (wanted.days, 0)
            )
        )
        change = last.close - first.close
        percent = (100 * change / first.close).quantize(CENT)
        return Movement(wanted.share, first, last, change, percent)
