"""A web application whose lifespan is the client's: ``uvicorn app:app`` in this folder.

Orders are taken over HTTP, published, handled in the background, and asked for again over HTTP.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI, HTTPException, Request
from pydantic import BaseModel

from dragoman import Client, controller, endpoint
from dragoman.core.errors import ReplyTimeout


class Order(BaseModel):
    """The same class is the body of the HTTP request and the payload of the message."""

    number: int
    item: str


class Wanted(BaseModel):
    number: int


@controller(group="orders")
class Orders:
    def __init__(self) -> None:
        self.taken: dict[int, Order] = {}

    @endpoint("orders")
    async def on_order(self, order: Order) -> None:
        self.taken[order.number] = order

    @endpoint("orders.wanted")
    async def on_wanted(self, wanted: Wanted) -> Order | None:
        return self.taken.get(wanted.number)


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """The client starts before the first request and ends after the last one."""
    async with Client(controllers=[Orders]) as client:
        app.state.client = client
        yield


app = FastAPI(title="Orders", lifespan=lifespan)


@app.post("/orders", status_code=202)
async def take(order: Order, request: Request) -> None:
    await request.app.state.client.publish("orders", order, key=order.number)


@app.get("/orders/{number}")
async def look(number: int, request: Request) -> Order:
    client: Client = request.app.state.client
    try:
        return await client.request("orders.wanted", Wanted(number=number), reply=Order, timeout=2.0)
    except ReplyTimeout:
        raise HTTPException(404, "There is no such order.") from None
