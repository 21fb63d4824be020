"""The OpenAPI document of the gateway."""

from __future__ import annotations

from functools import cache
from importlib.metadata import version
from typing import Any

import msgspec

from dragoman.gateway.drop_off import Receipt
from dragoman.gateway.envelope.model import Envelope
from dragoman.gateway.http.answers import ErrorBody

Json = dict[str, Any]

_ERRORS = {
    "400": "This is no envelope, or one that cannot be taken.",
    "403": "Refused. It is not told why.",
    "405": "The method does not exist here.",
    "408": "The request took too long to arrive.",
    "409": "Another request has this id.",
    "413": "The envelope is too large.",
    "415": "It is not sent as application/json.",
    "429": "Too many requests, or too many responses that wait.",
    "503": "Not now; nothing was accepted.",
}
_WITHOUT_REFUSAL = {status: text for status, text in _ERRORS.items() if status not in ("403", "409")}


@cache
def document() -> Json:
    _, shapes = msgspec.json.schema_components(
        [Envelope, Receipt, ErrorBody], ref_template="#/components/schemas/{name}"
    )
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Dragoman gateway",
            "version": version("dragoman"),
            "description": "Drop off a request, go on with your life, collect the response later.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": {
            "/drop-off": {"post": _drop_off()},
            "/collection": {"post": _collection()},
            "/health": {"get": _probe("health", "Whether the process runs.", {"200": "It does."})},
            "/ready": {
                "get": _probe(
                    "ready",
                    "Whether store and broker answer.",
                    {"200": "They do.", "503": "One of them does not."},
                )
            },
            "/metrics": {
                "get": {
                    "operationId": "metrics",
                    "summary": "Counters in Prometheus' text format.",
                    "responses": {"200": {"description": "Done.", "content": {"text/plain": {}}}},
                }
            },
        },
        "components": {"schemas": shapes},
    }


def _drop_off() -> Json:
    return {
        "operationId": "dropOff",
        "summary": "Drop off a request.",
        "requestBody": _body(),
        "responses": {
            "202": {
                "description": "The broker has it. The response can be collected as the receipt says.",
                "content": {"application/json": {"schema": _shape("Receipt")}},
            },
            **_failures(_ERRORS),
        },
    }


def _collection() -> Json:
    return {
        "operationId": "collect",
        "summary": "Collect a response with select, then confirm it with delete and the same collectionId.",
        "parameters": [
            {
                "name": "wait",
                "in": "query",
                "description": "Seconds that the answer may take when there is no response yet.",
                "schema": {"type": "number", "minimum": 0},
            }
        ],
        "requestBody": _body(),
        "responses": {
            "200": {
                "description": "The response.",
                "content": {"application/json": {"schema": _shape("Envelope")}},
            },
            "204": {"description": "None: not yet, not any more, or not for you."},
            **_failures(_WITHOUT_REFUSAL),
        },
    }


def _probe(name: str, summary: str, answers: dict[str, str]) -> Json:
    responses = {
        status: {"description": text, "content": {"application/json": {"schema": {"type": "object"}}}}
        for status, text in answers.items()
    }
    return {"operationId": name, "summary": summary, "responses": responses}


def _body() -> Json:
    return {"required": True, "content": {"application/json": {"schema": _shape("Envelope")}}}


def _failures(texts: dict[str, str]) -> Json:
    content = {"application/json": {"schema": _shape("ErrorBody")}}
    return {status: {"description": text, "content": content} for status, text in texts.items()}


def _shape(name: str) -> Json:
    return {"$ref": f"#/components/schemas/{name}"}
