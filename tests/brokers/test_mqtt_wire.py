"""MQTT on the wire: packets, contents and reason codes, compared with another client's."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode

from dragoman.adapters.mqtt import content, wire
from dragoman.adapters.mqtt.reasons import REASONS, RETURN_CODES, error_of
from dragoman.adapters.mqtt.wire import V5, V311, Kind, Malformed
from dragoman.core.errors import (
    AccessRefused,
    BrokerUnavailable,
    ConfigurationError,
    DecodeError,
    DragomanError,
    EncodeError,
)
from dragoman.core.message import Message

texts = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20)
names = st.one_of(
    texts, st.sampled_from([content.KEY, content.MISSING, content.TIME, content.BYTES, content.BYTES + "x"])
)
messages = st.builds(
    Message,
    st.just("channel"),
    st.one_of(st.none(), st.binary(max_size=50)),
    st.one_of(st.none(), st.binary(max_size=20)),
    st.lists(st.tuples(names, st.binary(max_size=20)), max_size=5).map(tuple),
    st.none(),
    st.none(),
    st.one_of(st.none(), st.integers(0, 2**40)),
)


@given(messages)
@settings(deadline=None)
def test_a_message_comes_out_of_user_properties_as_it_went_in(message: Message) -> None:
    extra = content.to_properties(message, b"")
    packet = wire.publish(wire.text("t"), message.payload or b"", 1, False, 7, extra)
    [found] = list(wire.split(bytearray(packet)))
    came = wire.read_publish(found.flags, found.body, V5)
    assert (came.topic, came.qos, came.packet) == ("t", 1, 7)
    assert content.from_properties(came.payload, came.user) == content.Content(
        message.payload, message.key, message.headers, message.timestamp
    )


@given(messages)
@settings(deadline=None)
def test_a_message_comes_out_of_an_envelope_as_it_went_in(message: Message) -> None:
    assert content.from_envelope(content.to_envelope(message)) == content.Content(
        message.payload, message.key, message.headers, message.timestamp
    )


@given(st.binary(max_size=60))
@settings(deadline=None)
def test_bytes_that_are_no_envelope_are_refused(raw: bytes) -> None:
    try:
        found = content.from_envelope(raw)
    except DecodeError:
        return
    again = Message("channel", found.payload, found.key, found.headers, timestamp=found.timestamp)
    assert content.from_envelope(content.to_envelope(again)) == found


def test_a_time_that_is_none_comes_as_a_header() -> None:
    for text in ("", "-1", "soon", "9" * 19, "9" * 5000):
        found = content.from_properties(b"x", ((content.TIME, text),))
        assert (found.timestamp, found.headers) == (None, ((content.TIME, text.encode()),))
    assert content.from_properties(b"x", ((content.TIME, "9" * 18),)).timestamp == 10**18 - 1


def test_headers_that_mqtt_cannot_carry_are_refused() -> None:
    for headers in ((("zero\0", b"x"),), (("n" * 70_000, b"x"),)):
        with pytest.raises(EncodeError):
            content.to_properties(Message("channel", b"x", headers=headers), b"")


@given(st.lists(st.binary(max_size=300), max_size=8), st.lists(st.integers(1, 40), max_size=40))
@settings(deadline=None)
def test_packets_are_found_however_the_bytes_are_cut(payloads: list[bytes], cuts: list[int]) -> None:
    stream = b"".join(
        wire.publish(wire.text("topic"), payload, 1, False, number, b"")
        for number, payload in enumerate(payloads, 1)
    )
    buffer, found = bytearray(), []
    for size in [*cuts, len(stream)]:
        buffer += stream[:size]
        stream = stream[size:]
        found += [wire.read_publish(each.flags, each.body, V311) for each in wire.split(buffer)]
    assert [each.payload for each in found] == payloads
    assert [each.packet for each in found] == list(range(1, len(payloads) + 1))
    assert not buffer


@given(st.binary(max_size=40))
@settings(deadline=None)
def test_foreign_bytes_are_malformed_or_read_never_worse(raw: bytes) -> None:
    try:
        for packet in wire.split(bytearray(raw)):
            match packet.kind:
                case Kind.PUBLISH:
                    wire.read_publish(packet.flags, packet.body, V5)
                case Kind.CONNACK:
                    wire.read_connack(packet.body, V5)
                case Kind.DISCONNECT:
                    wire.read_disconnect(packet.body)
                case kind:
                    wire.read_answer(kind, packet.body, V5)
    except Malformed:
        return


def test_properties_that_others_write_are_read() -> None:
    theirs = Properties(PacketTypes.PUBLISH)
    theirs.UserProperty = [("name", "value"), ("name", "again")]
    theirs.ContentType = "application/avro"
    theirs.CorrelationData = b"\x00\x01"
    theirs.MessageExpiryInterval = 60
    theirs.ResponseTopic = "reply"
    theirs.PayloadFormatIndicator = 1
    theirs.SubscriptionIdentifier = 300
    body = wire.text("t") + struct.pack(">H", 9) + theirs.pack() + b"payload"
    came = wire.read_publish(0b0010, memoryview(body), V5)
    assert came.user == (("name", "value"), ("name", "again"))
    assert came.payload == b"payload"


def test_no_reason_of_mqtt_5_is_missed() -> None:
    known = ReasonCode(PacketTypes.CONNACK).names
    failures = {code for code in known if code >= 0x80}
    assert failures <= set(REASONS)
    for code in failures:
        error = error_of(code, V5, "its own words", server="here")
        assert isinstance(error, DragomanError)
        assert error.next and "its own words" in error.what


def test_no_return_code_of_mqtt_311_is_missed() -> None:
    assert set(RETURN_CODES) == {1, 2, 3, 4, 5}
    assert isinstance(error_of(4, V311), AccessRefused)
    assert isinstance(error_of(3, V311), BrokerUnavailable)
    assert isinstance(error_of(1, V311), ConfigurationError)


def test_a_code_that_nobody_knows_is_an_error_all_the_same() -> None:
    assert "0xf0" in str(error_of(0xF0, V5))
