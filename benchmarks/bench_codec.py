"""Avro codecs, from and to a class: ours, native and in Python, beside confluent-kafka's.

Both sides frame with the schema id. CPU time, the best of several rounds, ours and theirs in turn.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import Any

from confluent_kafka.schema_registry import SchemaRegistryClient, topic_subject_name_strategy
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from dragoman.formats.avro import AvroFormat
from dragoman.schema.framing import header_of, unframe
from dragoman.schema.records import record

ROUNDS = 9
CALLS = 8_000


class Status(Enum):
    NEW = 1
    PAID = 2
    SENT = 3


@record
class Address:
    street: str
    city: str
    country: str


@record(namespace="com.mycorp")
class Order:
    order_id: int
    customer: str
    amount: float
    paid: bool
    status: Status
    address: Address
    tags: list[str]
    created: datetime
    note: str | None = None


@dataclass
class PlainAddress:
    street: str
    city: str
    country: str


@dataclass
class PlainOrder:
    """The same order for the peer, which leaves the way to a dict and back to the user."""

    order_id: int
    customer: str
    amount: float
    paid: bool
    status: Status
    address: PlainAddress
    tags: list[str]
    created: datetime
    note: str | None = None


def to_dict(order: PlainOrder, context: Any) -> dict[str, Any]:
    return {**order.__dict__, "status": order.status.name, "address": order.address.__dict__}


def from_dict(values: dict[str, Any], context: Any) -> PlainOrder:
    values["status"] = Status[values["status"]]
    values["address"] = PlainAddress(**values["address"])
    return PlainOrder(**values)


def fields(address: Callable[..., Any]) -> dict[str, Any]:
    return {
        "order_id": 4_711_042,
        "customer": "Ada Lovelace, 12 St James's Square",
        "amount": 10_234.56,
        "paid": True,
        "status": Status.PAID,
        "address": address("12 St James's Square", "London", "United Kingdom"),
        "tags": ["priority", "gift", "international"],
        "created": datetime(2026, 3, 14, 15, 9, 26, 535_897, tzinfo=UTC),
        "note": "Please ring twice.",
    }


def best(rounds: list[float]) -> float:
    """Microseconds per call in the best round."""
    return min(rounds) / CALLS * 1e6


def measure(contenders: dict[str, Callable[[], Any]]) -> dict[str, float]:
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(ROUNDS):
        for name, call in contenders.items():
            start = time.process_time()
            for _ in range(CALLS):
                call()
            times[name].append(time.process_time() - start)
    return {name: best(rounds) for name, rounds in times.items()}


def main() -> None:
    avro = AvroFormat()
    if not avro.native:
        print("The native codecs were not built, or are switched off: both columns are Python.\n")
    text = avro.schema_of(Order)
    parsed = avro.parse(text)

    registry = SchemaRegistryClient.new_client({"url": "mock://"})
    strategy = {"subject.name.strategy": topic_subject_name_strategy}
    serializer = AvroSerializer(registry, text, to_dict, conf=strategy)
    deserializer = AvroDeserializer(registry, text, from_dict, conf=strategy)
    context = SerializationContext("orders", MessageField.VALUE)

    ours, theirs = Order(**fields(Address)), PlainOrder(**fields(PlainAddress))
    data = serializer(theirs, context)
    schema_id, _ = unframe(data)
    native, python = (
        each.codec(parsed, None, Order).framed(header_of(schema_id), Order)
        for each in (avro, AvroFormat(native=False))
    )
    for codec in (native, python):
        if codec.encode(ours) != data or codec.decode(data) != ours:
            raise SystemExit("The sides disagree about the bytes.")

    found = measure(
        {
            "native encode": lambda: native.encode(ours),
            "python encode": lambda: python.encode(ours),
            "their encode": lambda: serializer(theirs, context),
            "native decode": lambda: native.decode(data),
            "python decode": lambda: python.decode(data),
            "their decode": lambda: deserializer(data, context),
        }
    )
    print(f"A record of 9 fields, {len(data)} bytes with its frame. Microseconds per message, CPU time.\n")
    print("| | Dragoman | in Python | confluent-kafka | ratio |")
    print("|---|---:|---:|---:|---:|")
    for step in ("encode", "decode"):
        our, plain, their = (found[f"{who} {step}"] for who in ("native", "python", "their"))
        print(f"| {step} | {our:.2f} | {plain:.2f} | {their:.2f} | {their / our:.1f} |")


if __name__ == "__main__":
    main()
