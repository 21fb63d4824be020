"""Channels with Avro messages, on the embedded broker and a registry on SQLite."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fastavro

from dragoman.core.channel import Channel
from dragoman.core.contract import Compatibility
from dragoman.core.loading import BROKERS, load, scheme_of
from dragoman.core.message import Message
from dragoman.core.schema import Schema
from dragoman.registry import connect
from dragoman.schema.framing import frame


def loan(*extra: dict[str, Any], amount: str = "int") -> dict[str, Any]:
    fields = [{"name": "id", "type": "long"}, {"name": "amount", "type": amount}, *extra]
    return {"type": "record", "name": "Loan", "namespace": "test", "fields": fields}


NOTE = {"name": "note", "type": ["null", "string"], "default": None}
TERM = {"name": "term", "type": "int", "default": 12}
V1, V2, V3 = loan(), loan(NOTE, amount="long"), loan(NOTE, TERM, amount="double")


def payload(schema: Any, value: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(json.dumps(schema))), value)
    return out.getvalue()


@dataclass(frozen=True)
class Place:
    """A broker and a registry in a folder."""

    folder: Path

    @property
    def broker(self) -> str:
        return f"embedded://{self.folder}/broker"

    @property
    def registry(self) -> str:
        return f"sqlite://{self.folder}/registry.db"

    def options(self, channel: str = "loans", **more: object) -> dict[str, str]:
        own = {"broker": self.broker, "registry": self.registry, "channel": channel}
        return own | {name: str(value) for name, value in more.items()}

    def register(self, contract: str, *schemas: Any) -> list[int]:
        """The ids of schemas registered one after the other, whatever their compatibility."""

        async def run() -> list[int]:
            registry = connect(self.registry)
            await registry.set_compatibility(contract, Compatibility.NONE)
            found = [await registry.register(contract, Schema("AVRO", json.dumps(each))) for each in schemas]
            await registry.close()
            return [each.schema.id or 0 for each in found]

        return asyncio.run(run())

    def create(self, channel: str, partitions: int = 2) -> None:
        self._with_broker(lambda broker: broker.create(Channel(channel, partitions=partitions)))

    def publish(self, messages: Sequence[Message]) -> None:
        self._with_broker(lambda broker: broker.publish(messages))

    def _with_broker(self, work: Any) -> None:
        async def run() -> None:
            broker = load(BROKERS, scheme_of(self.broker))(self.broker)
            await broker.connect()
            await work(broker)
            await broker.close()

        asyncio.run(run())


def loans(schema_id: int, schema: Any, ids: Sequence[int], partition: int = 0, **more: Any) -> list[Message]:
    return [
        Message(
            "loans",
            frame(schema_id, payload(schema, {"id": i, "amount": i * 10} | more)),
            partition=partition,
        )
        for i in ids
    ]
