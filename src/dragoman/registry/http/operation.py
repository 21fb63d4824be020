"""Health, readiness, metrics, the OpenAPI document and its page."""

from __future__ import annotations

import time

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from dragoman.core.database import Transaction
from dragoman.core.errors import DragomanError
from dragoman.registry.http.answers import json_answer, text_answer
from dragoman.registry.http.openapi import document
from dragoman.registry.http.page import render
from dragoman.registry.http.requests import state_of
from dragoman.registry.store import contracts as store


async def health(request: Request) -> Response:
    """The process answers; says nothing about the database."""
    return json_answer({"status": "up"})


async def ready(request: Request) -> Response:
    """Whether requests can be served: the database answers and the server is not stopping."""
    state = state_of(request)
    if not state.ready:
        return json_answer({"status": "stopping"}, 503)
    try:
        await state.service.engine.read(lambda tx: tx.execute("SELECT 1"))
    except DragomanError as error:
        return json_answer({"status": "down", "code": error.code}, 503)
    return json_answer({"status": "ready"})


async def metrics(request: Request) -> Response:
    state = state_of(request)

    def count(tx: Transaction) -> tuple[int, int]:
        contracts = len(store.names(tx))
        schemas = tx.execute("SELECT COUNT(*) FROM registry_schemas")[0][0]
        return int(contracts), int(schemas)

    contracts, schemas = await state.service.engine.read(count)
    text = state.metrics.text(
        [
            ("dragoman_registry_contracts", "Contracts with a live version.", contracts),
            ("dragoman_registry_schemas", "Schemas stored.", schemas),
            ("dragoman_registry_uptime_seconds", "Since the start.", time.time() - state.metrics.started),
        ]
    )
    return text_answer(text, "text/plain; version=0.0.4")


async def openapi(request: Request) -> Response:
    return json_answer(document())


async def page(request: Request) -> Response:
    return text_answer(render(document()), "text/html")


ROUTES = [
    Route("/health", health, methods=["GET"]),
    Route("/ready", ready, methods=["GET"]),
    Route("/metrics", metrics, methods=["GET"]),
    Route("/openapi.json", openapi, methods=["GET"]),
    Route("/docs", page, methods=["GET"]),
]
