"""The front of the store: an HTTP interface, and the orchestrator of its purchases."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, HTTPException
from pydantic import BaseModel, Field

from dragoman import Client, orchestrate
from dragoman.core.errors import NotFound

from .records import Purchase
from .saga import PURCHASE


class Wish(BaseModel):
    """``session_id`` is the customer's own: who sends the same wish twice buys once."""

    session_id: str = Field(min_length=1, max_length=150)
    product: str = "tea"
    units: int = Field(1, ge=1)
    card_number: str = "4711"
    total: int = Field(10, ge=0)


def front(broker: str, registry: str, database: str) -> FastAPI:
    purchases = orchestrate(PURCHASE)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with Client(broker, registry, [purchases], database=database), purchases.watch():
            yield

    app = FastAPI(title="T2 store", lifespan=lifespan)

    @app.post("/purchases", status_code=202)
    async def buy(wish: Wish) -> dict[str, str]:
        purchase = Purchase(wish.session_id, wish.product, wish.units, wish.card_number, wish.total)
        return {"id": await purchases.start(purchase, id=wish.session_id)}

    @app.get("/purchases/{id}")
    async def look(id: str) -> dict[str, Any]:
        try:
            found = (await purchases.progress(id)).shown()
        except NotFound as error:
            raise HTTPException(404, str(error)) from error
        return {"id": id, "state": found["state"], "problem": found["problem"], "order": found["data"]}

    return app
