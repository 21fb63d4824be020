"""Messages of AMQP clients that do not know of us: each is delivered, whatever its headers are."""

from __future__ import annotations

import struct
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import aiormq
import pamqp.header
import pytest
from aiormq.abc import ChannelFrame
from hypothesis import given
from hypothesis import strategies as st
from pamqp.commands import Basic

from dragoman.adapters.rabbitmq import RabbitmqBroker, lenient, wire
from dragoman.adapters.rabbitmq.wire import frames_of, message_of
from dragoman.core.broker import Subscription
from dragoman.core.channel import Channel
from dragoman.core.message import Message
from tests.services.rabbitmq import Rabbitmq

OURS = [wire.KEY, wire.TIME, wire.NULL, wire.PACKED, wire.BIRTH]
MOMENT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False)
    | st.text()
    | st.text(st.characters(categories=["Cs"]))
    | st.binary()
    | st.binary().map(bytearray)
    | st.just(MOMENT)
    | st.just(Decimal("1.5")),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


def has_surrogates(value: Any) -> bool:
    if isinstance(value, str):
        return any("\ud800" <= letter <= "\udfff" for letter in value)
    if isinstance(value, Mapping):
        return any(has_surrogates(each) for pair in value.items() for each in pair)
    return isinstance(value, list) and any(map(has_surrogates, value))


READABLE = VALUES.filter(lambda value: not has_surrogates(value))


def delivered(headers: Mapping[str, Any], offset: int = 7) -> Message | None:
    properties = SimpleNamespace(headers={**headers, wire.OFFSET: offset}, timestamp=None)
    return message_of("c", 0, properties, b"payload")


@given(st.dictionaries(st.sampled_from(OURS) | st.text(max_size=10), VALUES, max_size=6))
def test_any_headers_make_a_message(headers: Mapping[str, Any]) -> None:
    found = delivered(headers)
    assert found is not None
    assert (found.payload is None) == (headers.get(wire.NULL) is True)
    assert found.payload in (None, b"payload")
    assert (found.offset, found.partition) == (6, 0)
    assert isinstance(found.key, bytes | None)
    assert isinstance(found.timestamp, int)
    if wire.PACKED not in headers:
        plain = {name for name in headers if name not in OURS and not name.startswith("x-")}
        assert plain <= {name for name, _ in found.headers}


@pytest.mark.parametrize(
    ("sent", "key"),
    [
        (b"k", b"k"),
        (bytearray(b"k"), b"k"),
        ("Käthe", "Käthe".encode()),
        (5, b"5"),
        (True, b"True"),
        (None, None),
    ],
)
def test_a_key_of_another_type_is_its_text(sent: object, key: bytes | None) -> None:
    found = delivered({wire.KEY: sent})
    assert found is not None
    assert found.key == key


def test_only_the_first_record_of_a_stream_is_its_birth() -> None:
    assert delivered({wire.BIRTH: True}, offset=0) is None
    assert delivered({wire.BIRTH: True}) is not None


def header(properties: bytes, flags: int) -> bytes:
    return struct.pack(">HHQH", 60, 0, 0, flags) + properties


def field(name: bytes, value: bytes) -> bytes:
    return bytes([len(name)]) + name + value


def table(*fields: bytes) -> bytes:
    joined = b"".join(fields)
    return struct.pack(">I", len(joined)) + joined


def nested(levels: int) -> bytes:
    inside = b""
    for _ in range(levels):
        inside = field(b"in", b"F" + table(inside)) if inside else field(b"in", b"V")
    return table(inside)


def decoded(data: bytes) -> Any:
    found = pamqp.header.ContentHeader()
    found.unmarshal(data)
    return found.properties


AGES = struct.pack(">Q", 2**63 - 1)
MICROSECONDS = struct.pack(">Q", 1_767_000_000_000_000)
TYPE, TABLE, TIME = 1 << 15, 1 << 13, 1 << 6
LATIN = "größe".encode("latin-1")
ODD = {
    "too many levels": header(nested(3000), TABLE),
    "a timestamp in microseconds": header(table() + MICROSECONDS, TABLE | TIME),
    "a header's time": header(table(field(b"at", b"T" + AGES)), TABLE),
    "a time inside": header(table(field(b"in", b"F" + table(field(b"at", b"T" + AGES)))), TABLE),
    "a time in a list": header(table(field(b"in", b"A" + table(b"T" + AGES))), TABLE),
    "a name in Latin-1": header(table(field(LATIN, b"I\0\0\0\5")), TABLE),
    "a content type in Latin-1": header(field(LATIN, b"") + table(), TYPE | TABLE),
}


@pytest.mark.parametrize("which", ODD)
def test_the_driver_reads_headers_that_make_no_sense(which: str) -> None:
    with pytest.raises((ValueError, RecursionError)):
        lenient._strictly(pamqp.header.ContentHeader(), ODD[which])
    properties = decoded(ODD[which])
    assert isinstance(properties.headers, dict)
    assert properties.timestamp is None


@given(st.dictionaries(st.text(max_size=10), READABLE, max_size=4))
def test_what_the_driver_can_read_is_read_as_it_does(headers: dict[str, Any]) -> None:
    sent = Basic.Properties(
        content_type="a",
        headers=headers,
        delivery_mode=2,
        priority=3,
        correlation_id="c",
        timestamp=MOMENT,
        message_id="m",
        app_id="ä",
    )
    try:
        data = pamqp.header.ContentHeader(0, 0, sent).marshal()
    except (ValueError, TypeError, OverflowError):
        return  # What it cannot write.
    strict = pamqp.header.ContentHeader()
    lenient._strictly(strict, data)
    found = lenient.properties_of(data)
    for name in Basic.Properties.attributes():
        assert getattr(found, name) == getattr(strict.properties, name)


async def test_no_foreign_message_stops_its_partition(rabbitmq_server: Rabbitmq) -> None:
    name, broker = f"foreign-{uuid4().hex}", RabbitmqBroker(rabbitmq_server.url)
    await broker.connect()
    await broker.create(Channel(name, 1))
    connection = await aiormq.connect(rabbitmq_server.url.replace("rabbitmq://", "amqp://"))
    plain = await connection.channel()
    tables: list[dict[str, Any]] = [
        {wire.KEY: "customer-7"},
        {wire.KEY: ["a"]},
        {wire.TIME: "yesterday"},
        {wire.TIME: MOMENT},
        {wire.PACKED: bytearray(b"\x05x")},
        {wire.PACKED: "x"},
        {wire.BIRTH: True},
        {wire.NULL: False},
        {wire.OFFSET: "abc"},
        {"a": {"b": [1, None]}, "n": None, "f": 1.5},
    ]
    for headers in tables:
        odd = Basic.Properties(headers=headers)
        await plain.basic_publish(b"odd", exchange=name, routing_key="0", properties=odd)
    # The driver cannot write the others either. Their bodies are empty.
    raw = await connection.channel(publisher_confirms=False)
    for data in ODD.values():
        start = pamqp.frame.marshal(Basic.Publish(exchange=name, routing_key="0"), raw.number)
        frame = struct.pack(">BHI", 2, raw.number, len(data)) + data + b"\xce"
        await raw.write_queue.put(ChannelFrame(payload=start + frame, should_close=False))
    await raw.basic_qos(prefetch_count=1)  # Its answer comes when the server has taken them.
    await plain.basic_publish(b"last", exchange=name, routing_key="0")
    await connection.close()
    receiver = await broker.subscribe(Subscription((name,), "group"))
    found: list[Message] = []
    deadline = time.monotonic() + 60
    while (not found or found[-1].payload != b"last") and time.monotonic() < deadline:
        found += await receiver.receive(100, 1.0)
    assert [message.payload for message in found] == [b"odd"] * len(tables) + [b""] * len(ODD) + [b"last"]
    assert found[0].key == b"customer-7"
    await receiver.acknowledge(found[-1:])
    assert [each.behind for each in await broker.lag(name, "group")] == [0]
    log = broker.log()
    [(start_at, end)] = log.partitions(name).values()
    assert end - start_at == len(found)
    assert log.offset_at(name, 0, int(time.time() * 1000) + 10_000) == end
    await broker.close()


def test_our_own_messages_are_read_as_they_were_sent() -> None:
    """Not in the lenient way: that is for others."""
    message = Message("c", None, b"k", (("b", b"1"), ("a", b"2")), timestamp=5)
    raw = frames_of(1, "c", "0", message, 0, 1 << 17)
    _, _, method = pamqp.frame.unmarshal(raw)
    at = len(pamqp.frame.marshal(method, 1))
    _, _, found = pamqp.frame.unmarshal(raw[at:])
    found.properties.headers[wire.OFFSET] = 3
    assert message_of("c", 0, found.properties, b"") == message._replace(partition=0, offset=2)
