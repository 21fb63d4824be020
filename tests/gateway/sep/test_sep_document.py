"""What the document says is what the server does: a client that knows nothing else is answered."""

from __future__ import annotations

import time
from typing import Any

import pytest

from dragoman.gateway.sep import Operation, Reply, SepLimits, SepServer, ServerKey, Suite
from tests.gateway.sep.stranger import PATIENCE, Session, acknowledgement, reply, request, wire_to


async def upper(operation: Operation, body: bytes, peer: Any) -> Reply:
    return Reply(200 + operation, body.upper())


async def test_a_client_made_from_the_document_is_answered() -> None:
    key = ServerKey.generate(Suite.X25519)
    async with SepServer(upper, key) as server:
        wire, session = await wire_to(server.address), Session(key.public.text(), 1)
        wire.transport.sendto(session.init(0, request(0, 1, b"a loan")))
        assert reply(session.accepted(await wire.next(0x14))) == (0, 201, b"A LOAN")
        wire.transport.sendto(session.data(0, acknowledgement(0, 1, b"\x01") + request(1, 2, b"collect")))
        assert reply(session.opened(await wire.next(0x15))) == (1, 202, b"COLLECT")
        wire.transport.sendto(session.data(1, b"\x06"))
        wire.transport.close()


async def test_it_is_answered_with_post_quantum_keys_after_a_retry() -> None:
    key = ServerKey.generate(Suite.X25519_MLKEM768)
    async with SepServer(upper, key, limits=SepLimits(unproven=0)) as server:
        wire, session = await wire_to(server.address), Session(key.public.text(), 2)
        wire.transport.sendto(session.init(0, b""))
        milliseconds, cookie = session.retried(await wire.next(0x13))
        assert abs(milliseconds / 1000 - time.time()) < PATIENCE
        assert 0 < len(cookie) <= 40
        wire.transport.sendto(session.init(1, b"", cookie))
        wire.transport.sendto(session.early_data(2, request(7, 1, b"more")))
        assert reply(session.accepted(await wire.next(0x14))) == (7, 201, b"MORE")
        wire.transport.close()


@pytest.mark.parametrize("damage", [0, 1, 9, 13, 14, 46, 600, 1199])
async def test_a_datagram_with_one_changed_bit_gets_no_answer(damage: int) -> None:
    key = ServerKey.generate(Suite.X25519)
    async with SepServer(upper, key) as server:
        wire, session = await wire_to(server.address), Session(key.public.text(), 1)
        changed = bytearray(session.init(0, request(0, 1, b"no")))
        changed[damage] ^= 0x40
        wire.transport.sendto(bytes(changed))
        good = Session(key.public.text(), 1)
        wire.transport.sendto(good.init(0, request(0, 1, b"yes")))
        assert reply(good.accepted(await wire.next(0x14))) == (0, 201, b"YES")
        assert server.counts["requests"] == 1
        wire.transport.close()
