"""Answers: JSON as bytes, and errors by the one table of codes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from starlette.responses import Response

from dragoman.core.contract import Incompatibility
from dragoman.core.errors import DragomanError, IncompatibleSchema, InvalidSchema
from dragoman.registry.refusals import status_of

JSON = "application/json"
SUBJECT_JSON = "application/vnd.schemaregistry.v1+json"

_encode = msgspec.json.Encoder().encode


def json_answer(value: Any, status: int = 200, media_type: str = JSON) -> Response:
    return Response(_encode(value), status, media_type=media_type)


def text_answer(text: str, media_type: str) -> Response:
    return Response(text.encode(), media_type=media_type)


def error_answer(error: DragomanError) -> Response:
    """An error of the contract API: everything that helps."""
    status, number = status_of(error.code)
    body: dict[str, Any] = {
        "error_code": number,
        "message": error.what,
        "code": error.code,
        "where": {
            name: value if isinstance(value, int | str) else str(value) for name, value in error.where.items()
        },
        "next": error.next,
    }
    if isinstance(error, IncompatibleSchema):
        body["reasons"] = reasons_value(error.reasons)
    return json_answer(body, status)


def subject_error(error: DragomanError, *, short_conflict_code: bool = False) -> Response:
    """An error of the subject API: exactly these two members, some clients refuse others."""
    status, number = status_of(error.code)
    if number == 40901 and short_conflict_code:
        number = 409
    return json_answer({"error_code": number, "message": sentence(error)}, status, SUBJECT_JSON)


def sentence(error: DragomanError) -> str:
    """For answers with room for nothing else: what is wrong with a schema also says where."""
    return str(error) if isinstance(error, InvalidSchema) else error.what


def reasons_value(reasons: Sequence[Incompatibility]) -> list[dict[str, Any]]:
    return [
        {
            "rule": reason.rule,
            "message": reason.message,
            "readerPath": reason.reader_path,
            "writerPath": reason.writer_path,
            "counterexample": reason.counterexample,
        }
        for reason in reasons
    ]


def reasons_from(values: Sequence[dict[str, Any]]) -> tuple[Incompatibility, ...]:
    return tuple(
        Incompatibility(
            str(value.get("rule", "")),
            str(value.get("message", "")),
            str(value.get("readerPath", "")),
            str(value.get("writerPath", "")),
            value.get("counterexample"),
        )
        for value in values
    )
