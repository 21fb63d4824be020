"""MQTT: a server that lives and answers, but does not do its part."""

from __future__ import annotations

import asyncio

import pytest

from dragoman.adapters.mqtt import wire
from dragoman.adapters.mqtt.connection import Outgoing, open_connection
from dragoman.adapters.mqtt.options import options_of
from dragoman.adapters.mqtt.wire import Connect, Kind
from dragoman.core.errors import BrokerUnavailable

WELCOME = b"\x20\x03\x00\x00\x00"
PONG = b"\xd0\x00"


async def greet_and_answer_pings(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    buffer = bytearray()
    while data := await reader.read(4096):
        buffer += data
        for packet in wire.split(buffer):
            if packet.kind == Kind.CONNECT:
                writer.write(WELCOME)
            elif packet.kind == Kind.PINGREQ:
                writer.write(PONG)
    writer.close()


async def test_a_publisher_does_not_wait_for_ever_for_a_server_that_confirms_nothing() -> None:
    server = await asyncio.start_server(greet_and_answer_pings, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    options = options_of(f"mqtt://{host}:{port}?keep_alive=60")
    connection = await open_connection(
        options, Connect("", True, options.keep_alive, None, None), lambda _: None, lambda _: None
    )
    message = Outgoing(wire.text("topic"), b"x", 1, False, wire.properties({}))
    sent = await connection.send((message,))
    await connection.round_trip()
    # It was sent long ago, and the server has just answered.
    connection._confirmed_at -= 2 * options.keep_alive
    connection._watch()
    async with asyncio.timeout(60):
        with pytest.raises(BrokerUnavailable, match="confirms no messages"):
            await sent
    server.close()
