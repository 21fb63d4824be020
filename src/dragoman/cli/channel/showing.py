"""Messages for people and programs."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from dragoman.cli.output import emit_json, say
from dragoman.client.contracts import Contracts
from dragoman.client.headers import text_of
from dragoman.core.errors import DragomanError
from dragoman.core.message import Message
from dragoman.schema.framing import unframe


async def readable(message: Message, contracts: Contracts | None) -> dict[str, Any]:
    """A message for people and programs. One that cannot be read shows why, and its bytes."""
    shown: dict[str, Any] = {
        "partition": message.partition,
        "offset": message.offset,
        "time": time(message.timestamp or 0),
        "key": _key(message.key),
        "headers": {name: text_of(value) for name, value in message.headers},
    }
    if contracts is None or message.payload is None:
        return shown | {"payload": None if message.payload is None else message.payload.hex()}
    try:
        schema_id, payload = unframe(message.payload)
        decode = await contracts.decoder(schema_id, None)
        return shown | {"schema": schema_id, "value": decode(payload)}
    except DragomanError as error:
        return shown | {"error": error.code, "payload": message.payload.hex()}


def show(shown: dict[str, Any], as_json: bool) -> None:
    if as_json:
        emit_json(shown)
        return
    body = shown["value"] if "value" in shown else f"{shown.get('error', '')} {shown['payload']}".strip()
    text = body if isinstance(body, str) else json.dumps(body, default=plain, ensure_ascii=False)
    key = "" if shown["key"] is None else f" {shown['key']}"
    say(f"{shown['partition']}:{shown['offset']} {shown['time']}{key} {text}")


def plain(value: object) -> object:
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value)


def _key(key: bytes | None) -> str | None:
    if key is None:
        return None
    try:
        return key.decode()
    except UnicodeDecodeError:
        return key.hex()


def time(timestamp: int) -> str:
    return datetime.fromtimestamp(timestamp / 1000, UTC).isoformat(timespec="milliseconds")
