"""The OpenAPI document, written from one list of operations."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib.metadata import version
from typing import Any

from dragoman.registry.http.operations import OPERATIONS
from dragoman.registry.http.shapes import SHAPES, Operation, Parameter

Json = dict[str, Any]

ERROR_STATUSES = {
    "400": "The request cannot be read.",
    "401": "Credentials are missing or wrong.",
    "403": "The credentials lack a role.",
    "404": "There is no such thing.",
    "405": "The method does not exist here.",
    "409": "The schema is not compatible, or the request contradicts what is stored.",
    "413": "The request is too large.",
    "422": "The request is understood and refused.",
    "429": "Too many wrong passwords, or logins at once; the header Retry-After says when to come again.",
    "503": "The database cannot be reached.",
}


@cache
def document() -> Json:
    paths: dict[str, Json] = {}
    for operation in OPERATIONS:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(operation)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Dragoman registry",
            "version": version("dragoman"),
            "description": "Contracts, their versions and schemas. The same rows answer as contracts, as"
            " subjects for clients of Confluent's registry, and as OpenSchema.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths,
        "components": {
            "schemas": SHAPES,
            "securitySchemes": {
                "basic": {"type": "http", "scheme": "basic"},
                "bearer": {"type": "http", "scheme": "bearer", "description": "An API key or a JWT."},
            },
        },
        "security": [{}, {"basic": []}, {"bearer": []}],
        "tags": [{"name": name} for name in dict.fromkeys(each.tag for each in OPERATIONS)],
    }


def _operation(operation: Operation) -> Json:
    value: Json = {
        "tags": [operation.tag],
        "summary": operation.summary,
        "operationId": operation.name,
        "parameters": _parameters(operation.parameters),
        "responses": _responses(operation),
    }
    if operation.body:
        value["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": _shape(operation.body)}},
        }
    return value


def _parameters(parameters: Sequence[Parameter]) -> list[Json]:
    return [
        {
            "name": each.name,
            "in": each.place,
            "required": each.place == "path",
            "description": each.description,
            "schema": each.schema,
        }
        for each in parameters
    ]


def _responses(operation: Operation) -> Json:
    media_type = operation.media_type
    content: Json = {"schema": _shape(operation.answer)} if operation.answer else {}
    responses: Json = {"200": {"description": "Done.", "content": {media_type: content}}}
    for status, description in ERROR_STATUSES.items():
        # The gate and the router answer before any API does, in plain JSON.
        error: Json = {"application/json": {"schema": _shape("Error")}}
        if operation.error_media_type:
            error[operation.error_media_type] = {"schema": _shape("SubjectError")}
        responses[status] = {"description": description, "content": error}
    return responses


def _shape(shape: str | Json) -> Json:
    return {"$ref": f"#/components/schemas/{shape}"} if isinstance(shape, str) else shape
