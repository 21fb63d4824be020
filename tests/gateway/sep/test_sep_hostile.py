"""Clients and networks that mean harm: authentic datagrams that no honest client sends, and rubbish."""

from __future__ import annotations

import asyncio
import random
import struct
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from dragoman.core.errors import ClientError, ConfigurationError
from dragoman.gateway.sep import Operation, Reply, SepClient, SepLimits, SepServer, ServerKey, Suite
from dragoman.gateway.sep.cookies import Cookies, for_moving, for_opening
from dragoman.gateway.sep.datagram import Type
from dragoman.gateway.sep.frames import Close
from dragoman.gateway.sep.hosts import host_of
from tests.gateway.sep.relay import Relay
from tests.gateway.sep.stranger import (
    PATIENCE,
    Session,
    Wire,
    acknowledgement,
    part,
    reply,
    request,
    wire_to,
)

CLOSE = b"\x06"
LARGE = 100_000


async def handle(operation: Operation, body: bytes, peer: Any) -> Reply:
    return Reply(200, bytes(LARGE) if body == b"much" else body.upper())


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not condition():
            await asyncio.sleep(0.01)


@asynccontextmanager
async def known(**limits: Any) -> AsyncIterator[tuple[SepServer, Wire, Session]]:
    """A server, and a session with it that has proved where its client is."""
    key = ServerKey.generate(Suite.X25519)
    async with SepServer(handle, key, limits=SepLimits(**limits)) as server:
        wire, session = await wire_to(server.address), Session(key.public.text(), 1)
        wire.transport.sendto(session.init(0, request(0, 1, b"hello")))
        assert reply(session.accepted(await wire.next(Type.ACCEPT)))[2] == b"HELLO"
        wire.transport.sendto(session.data(0, acknowledgement(0, 1, b"\x01")))
        await until(lambda: server.counts["replies"] == 1)
        yield server, wire, session
        wire.transport.close()
        assert server.unproven == 0


async def answered(wire: Wire, session: Session, number: int, stream: int) -> bool:
    """An earlier answer may come once more before it, if its acknowledgement is late."""
    wire.transport.sendto(session.data(number, request(stream, 1, b"still there")))
    while (found := reply(session.opened(await wire.next(Type.DATA))))[0] < stream:
        pass
    return found == (stream, 200, b"STILL THERE")


async def test_a_leap_in_numbers_costs_nothing() -> None:
    async with known() as (server, wire, session):
        assert await answered(wire, session, 2**32 - 2, 1)
        wire.transport.sendto(session.data(1, request(2, 1, b"old")))
        await until(lambda: server.counts["repeated"] == 1)
        assert server.counts["requests"] == 2


async def test_nothing_is_read_behind_a_close() -> None:
    async with known() as (server, wire, session):
        wire.transport.sendto(session.data(1, CLOSE + part(1, 0, 2, bytes(1024))))
        await until(lambda: not server._sessions)
        assert server.assembling == 0


async def test_what_is_not_whole_is_bounded_also_for_messages_that_have_begun() -> None:
    async with known(assembling=10 * 1024) as (server, wire, session):
        for stream in range(1, 9):
            wire.transport.sendto(session.data(stream, part(stream, 0, 100, bytes(1024))))
        await until(lambda: server.assembling == 8 * 1024)
        for index in range(1, 6):
            wire.transport.sendto(session.data(10 + index, part(1, index, 100, bytes(1024))))
        before = server.counts["refused streams"]
        await until(lambda: server.counts["refused streams"] > before or server.assembling == 7 * 1024)
        assert server.assembling <= 10 * 1024
        wire.transport.sendto(session.data(20, CLOSE))
        await until(lambda: not server._sessions)
        assert server.assembling == 0


async def test_a_refused_message_does_not_begin_anew_with_its_late_parts() -> None:
    async with known(assembling=1024) as (server, wire, session):
        for index in range(4):
            wire.transport.sendto(session.data(1 + index, part(1, index, 4, bytes(1024))))
        for _ in range(3):
            refusal = struct.unpack(">BIB", session.opened(await wire.next(Type.DATA)))
            assert refusal == (5, 1, 2)
        assert server.assembling == 0


async def test_a_message_that_does_not_become_whole_is_forgotten() -> None:
    async with known() as (server, wire, session):
        wire.transport.sendto(session.data(1, part(1, 0, 2, bytes(1024))))
        await until(lambda: server.assembling == 1024)
        [inside] = server._sessions.values()
        inside.drop_stalled()
        assert server.assembling == 1024
        inside._streams[1].begun -= 100
        inside.drop_stalled()
        assert server.assembling == 0
        assert not inside._streams


async def test_a_finished_request_is_never_carried_out_again() -> None:
    async with known() as (server, wire, session):
        for stream in range(1, 30):
            assert await answered(wire, session, 2 * stream, stream)
            wire.transport.sendto(session.data(2 * stream + 1, acknowledgement(stream, 1, b"\x01")))
        await until(lambda: server.counts["replies"] == 30)
        wire.transport.sendto(session.data(100, request(3, 1, b"again")))
        assert await answered(wire, session, 101, 30)
        assert server.counts["requests"] == 31


async def test_too_much_work_at_once_is_refused() -> None:
    key, go = ServerKey.generate(Suite.X25519), asyncio.Event()

    async def slow(operation: Operation, body: bytes, peer: Any) -> Reply:
        await go.wait()
        return Reply(200)

    async with (
        SepServer(slow, key, limits=SepLimits(requests=1)) as server,
        SepClient(*server.address, key.public) as client,
    ):
        first = asyncio.create_task(client.request(Operation.DROP_OFF, b"1", PATIENCE))
        await until(lambda: server.counts["requests"] == 1)
        with pytest.raises(ClientError, match="too much to do"):
            await client.request(Operation.DROP_OFF, b"2", PATIENCE)
        go.set()
        assert await first == Reply(200)


async def test_a_client_on_another_host_gets_little_until_it_sends_its_cookie_back() -> None:
    """Or else somebody could have much sent to a host that never asked."""
    async with known() as (server, _, session):
        other = await wire_to(server.address, "127.0.0.2")
        asked = session.data(1, request(1, 1, b"much"))
        other.transport.sendto(asked)
        await until(lambda: server.counts["held back"] > 0)
        cookie = session.opened(await other.next(Type.DATA))
        assert cookie[:2] == b"\x04\x14"
        assert server._sessions[session.id]._sent <= len(asked)
        other.transport.sendto(session.data(2, cookie))
        for _ in range(3):
            await other.next(Type.DATA)
        other.transport.close()


async def test_a_cookie_is_good_for_the_session_that_it_was_made_for_only() -> None:
    """One that was seen on the network, or got at the same address, opens nothing else."""
    key = ServerKey.generate(Suite.X25519)
    async with SepServer(handle, key, limits=SepLimits(unproven=0)) as server:
        wire, first = await wire_to(server.address), Session(key.public.text(), 1)
        wire.transport.sendto(first.init(0, b""))
        _, cookie = first.retried(await wire.next(Type.RETRY))
        other = Session(key.public.text(), 1)
        for thief in (other, Session(key.public.text(), 1)):
            wire.transport.sendto(thief.init(0, request(0, 1, b"x"), cookie))
            thief.retried(await wire.next(Type.RETRY))
        assert server.sessions == 0
        wire.transport.sendto(first.init(1, request(0, 1, b"x"), cookie))
        assert reply(first.accepted(await wire.next(Type.ACCEPT)))[2] == b"X"
        before = server.counts["repeated"]
        wire.transport.sendto(first.init(1, request(0, 1, b"x"), cookie))
        await until(lambda: server.counts["repeated"] > before)
        wire.transport.close()


def test_a_cookie_is_bound_to_host_purpose_and_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1_000_000.0
    monkeypatch.setattr("dragoman.gateway.sep.cookies.time.time", lambda: now)
    cookies = Cookies(30.0)
    cookie = cookies.make("192.0.2.1", for_opening(b"s" * 8, b"p" * 32))
    assert cookies.good("192.0.2.1", for_opening(b"s" * 8, b"p" * 32), cookie)
    for host, purpose in (
        ("192.0.2.2", for_opening(b"s" * 8, b"p" * 32)),
        ("192.0.2.1", for_opening(b"t" * 8, b"p" * 32)),
        ("192.0.2.1", for_opening(b"s" * 8, b"q" * 32)),
        ("192.0.2.1", for_moving(b"s" * 8)),
        ("192.0.2.1o", for_opening(b"s" * 8, b"p" * 32)[1:]),
    ):
        assert not cookies.good(host, purpose, cookie)
    now += 31
    assert not cookies.good("192.0.2.1", for_opening(b"s" * 8, b"p" * 32), cookie)
    assert not cookies.good("192.0.2.1", for_opening(b"s" * 8, b"p" * 32), b"")


async def test_an_address_gets_no_more_than_it_sent_until_it_has_answered_also_with_a_good_cookie() -> None:
    key = ServerKey.generate(Suite.X25519)
    async with SepServer(handle, key, limits=SepLimits(unproven=0)) as server:
        wire, session = await wire_to(server.address), Session(key.public.text(), 1)
        opening = session.init(0, b"")
        wire.transport.sendto(opening)
        _, cookie = session.retried(await wire.next(Type.RETRY))
        again = session.init(1, request(0, 1, b"much"), cookie)
        wire.transport.sendto(again)
        await until(lambda: server.counts["held back"] > 3)
        [inside] = server._sessions.values()
        assert inside._sent <= len(again)
        session.accepted(await wire.next(Type.ACCEPT))
        wire.transport.sendto(session.data(0, b"\0"))
        for _ in range(3):
            await wire.next(Type.DATA)
        wire.transport.close()


async def test_key_exchanges_for_strangers_are_rationed_and_a_good_cookie_is_looked_at_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    key = ServerKey.generate(Suite.X25519)
    limits = SepLimits(unproven=0, openings=10, openings_per_host=4)
    async with SepServer(handle, key, limits=limits) as server:
        for bucket in (server._by_all, server._by_host):
            monkeypatch.setattr(bucket, "_clock", lambda: 1000.0)
        wire, session = await wire_to(server.address), Session(key.public.text(), 1)
        wire.transport.sendto(session.init(0, b""))
        _, cookie = session.retried(await wire.next(Type.RETRY))
        exchanges = 0
        exchange = key.first_keys

        def counted(*arguments: Any) -> Any:
            nonlocal exchanges
            exchanges += 1
            return exchange(*arguments)

        monkeypatch.setattr(key, "first_keys", counted)
        forged = bytes([Type.INIT]) + bytes(12) + b"\x01" + bytes(range(32)) + bytes(1154)
        for host in ("127.0.0.1", "127.0.0.2", "127.0.0.3", "127.0.0.4"):
            for _ in range(100):
                server.datagram_received(forged, (host, 9))
        assert exchanges == 9
        assert server.counts["shed"] == 391
        wire.transport.sendto(session.init(1, request(0, 1, b"x"), cookie))
        assert reply(session.accepted(await wire.next(Type.ACCEPT)))[2] == b"X"
        wire.transport.close()


async def test_one_host_cannot_take_the_room_of_others() -> None:
    key = ServerKey.generate(Suite.X25519)
    limits = SepLimits(sessions=8, sessions_per_host=4)
    async with SepServer(handle, key, limits=limits) as server:
        victim, own = await wire_to(server.address, "127.0.0.2"), Session(key.public.text(), 1)
        victim.transport.sendto(own.init(0, request(0, 1, b"x")))
        own.accepted(await victim.next(Type.ACCEPT))
        greedy = await wire_to(server.address)
        for _ in range(20):
            session = Session(key.public.text(), 1)
            greedy.transport.sendto(session.init(0, request(0, 1, b"x")))
            session.accepted(await greedy.next(Type.ACCEPT))
            greedy.transport.sendto(session.data(0, acknowledgement(0, 1, b"\x01")))
        assert own.id in server._sessions
        assert server.sessions == 5
        assert session.id in server._sessions, "the newest has the room of the host's oldest"
        victim.transport.close()
        greedy.transport.close()


async def test_a_session_with_a_running_request_does_not_give_way() -> None:
    key, go = ServerKey.generate(Suite.X25519), asyncio.Event()
    runs = Counter[bytes]()

    async def slow(operation: Operation, body: bytes, peer: Any) -> Reply:
        runs[body] += 1
        await go.wait()
        return Reply(200, body)

    async with (
        SepServer(slow, key, limits=SepLimits(sessions=3)) as server,
        SepClient(*server.address, key.public) as client,
    ):
        asked = asyncio.create_task(client.request(Operation.DROP_OFF, b"victim", PATIENCE))
        await until(lambda: runs[b"victim"] == 1)
        wire = await wire_to(server.address)
        for number in range(10):
            session = Session(key.public.text(), 1)
            wire.transport.sendto(session.init(0, request(0, 1, b"%d" % number)))
        await until(lambda: server.counts["no room"] == 8)
        go.set()
        assert (await asked).body == b"victim"
        assert client.counts["reopened"] == 0
        wire.transport.close()
    assert runs[b"victim"] == 1


@pytest.mark.parametrize(
    ("address", "host"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("2001:db8:0:1::1", "2001:db8:0:1::/64"),
        ("2001:db8:0:1:ffff::2", "2001:db8:0:1::/64"),
        ("fe80::1%eth0", "fe80::/64"),
    ],
)
def test_a_host_of_ipv6_has_a_whole_network(address: str, host: str) -> None:
    assert host_of((address, 1)) == host


async def test_an_old_datagram_does_not_move_a_session() -> None:
    async with known() as (server, wire, session):
        held = session.data(1, acknowledgement(0, 1, b"\x01"))
        assert await answered(wire, session, 2, 1)
        thief = await wire_to(server.address)
        before = server.counts["datagrams"]
        thief.transport.sendto(held)
        await until(lambda: server.counts["datagrams"] > before)
        wire.transport.sendto(session.data(3, acknowledgement(1, 1, b"\x01")))
        assert await answered(wire, session, 4, 2)
        assert thief.came.empty()
        thief.transport.close()


async def test_a_client_that_changes_its_port_is_followed() -> None:
    async with known() as (server, _, session):
        other = await wire_to(server.address)
        assert await answered(other, session, 1, 1)
        other.transport.close()


async def test_an_answer_that_cannot_be_sent_becomes_500() -> None:
    async def far_too_much(operation: Operation, body: bytes, peer: Any) -> Reply:
        return Reply(200, bytes(20_000)) if body == b"large" else Reply(-1)

    key = ServerKey.generate(Suite.X25519)
    async with (
        SepServer(far_too_much, key, limits=SepLimits(message=10_000)) as server,
        SepClient(*server.address, key.public) as client,
    ):
        assert await client.request(Operation.COLLECT, b"large", PATIENCE) == Reply(500)
        assert await client.request(Operation.COLLECT, b"wrong", PATIENCE) == Reply(500)


@pytest.mark.parametrize("size", [0, 9 * 1024 * 1024])
def test_a_limit_that_no_acknowledgement_could_cover_is_refused(size: int) -> None:
    with pytest.raises(ConfigurationError, match="cannot have"):
        SepLimits(message=size)


async def test_a_copied_retry_is_obeyed_once() -> None:
    key = ServerKey.generate(Suite.X25519)
    async with (
        SepServer(handle, key, limits=SepLimits(unproven=0)) as server,
        Relay(server.address) as relay,
    ):
        copies = 50
        relay.weather.change = lambda data: data if data[0] != Type.ACCEPT else None
        async with SepClient(*relay.address, key.public) as client:
            asked = asyncio.create_task(client.request(Operation.DROP_OFF, b"x", PATIENCE))
            await until(lambda: client.counts["retries"] == 1)
            [retry, *_] = [data for data in relay.to_client if data[0] == Type.RETRY]
            for _ in range(copies):
                client.datagram_received(retry, relay.address)
            assert client.counts["retries"] == 1
            relay.weather.change = lambda data: data
            assert (await asked).body == b"X"


async def test_requests_of_a_session_that_its_server_closes_go_to_a_new_one() -> None:
    key = ServerKey.generate(Suite.X25519)
    go = asyncio.Event()

    async def slow(operation: Operation, body: bytes, peer: Any) -> Reply:
        await go.wait()
        return Reply(200, body)

    async with SepServer(slow, key) as server, SepClient(*server.address, key.public) as client:
        asked = asyncio.create_task(client.request(Operation.DROP_OFF, bytes(5000), PATIENCE))
        await until(lambda: server.counts["requests"] == 1 and client._link is not None)
        await until(lambda: client._link is not None and client._link.keys is not None)
        [session] = server._sessions.values()
        session._send([Close()])
        session.close()
        go.set()
        assert (await asked).body == bytes(5000)
        assert client.counts["reopened"] >= 1


async def test_a_client_that_is_closed_tells_who_waits() -> None:
    key = ServerKey.generate(Suite.X25519)
    client = SepClient("127.0.0.1", 9, key.public)
    with pytest.raises(ClientError, match="not open"):
        await client.request(Operation.DROP_OFF, b"x")
    async with client:
        asked = asyncio.create_task(client.request(Operation.DROP_OFF, b"x", PATIENCE))
        await until(lambda: bool(client._requests))
    with pytest.raises(ClientError, match="closed"):
        await asked


@pytest.mark.parametrize("seed", [1, 2])
async def test_rubbish_reaches_nobody_and_breaks_nothing(seed: int) -> None:
    """Random bytes, changed copies, and authentic datagrams with random frames inside."""
    chance, errors = random.Random(seed), list[dict[str, Any]]()
    asyncio.get_running_loop().set_exception_handler(lambda _, context: errors.append(context))
    async with known() as (server, _, session):
        good = [
            session.init(5, request(9, 1, b"x")),
            session.data(2**31, CLOSE),
            session.early_data(6, CLOSE),
        ]
        before = server.counts["datagrams"]
        for number in range(1, 1501):
            server.datagram_received(_rubbish(chance, session, good, number), ("127.0.0.1", 9))
            if number % 50 == 0:
                await asyncio.sleep(0)
        assert server.counts["datagrams"] >= before + 1500
        fresh = SepClient(*server.address, server._key.public)
        async with fresh:
            assert (await fresh.request(Operation.DROP_OFF, b"after", PATIENCE)).body == b"AFTER"
            for _ in range(500):
                fresh.datagram_received(_rubbish(chance, session, good, 1), server.address)
            assert (await fresh.request(Operation.DROP_OFF, b"more", PATIENCE)).body == b"MORE"
    assert errors == []
    assert server.assembling == 0


def _rubbish(chance: random.Random, session: Session, good: list[bytes], number: int) -> bytes:
    match chance.randrange(4):
        case 0:
            return chance.randbytes(chance.randrange(1400))
        case 1:
            return bytes([0x10 + chance.randrange(8)]) + session.id + chance.randbytes(chance.randrange(1300))
        case 2:
            changed = bytearray(chance.choice(good))
            changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
            return bytes(changed)
        case _:
            frames = b"".join(_frame(chance) for _ in range(chance.randrange(4)))
            return session.data(number, frames)


def _frame(chance: random.Random) -> bytes:
    stream, count = chance.randrange(3, 90), chance.choice([0, 1, 2, 9, 1000, 1100, 9000, 65535])
    match chance.randrange(5):
        case 0:
            size = chance.choice([0, 1, 200])
            return part(stream, chance.randrange(max(1, count)), count, bytes(size))
        case 1:
            return acknowledgement(stream, count % 1000, chance.randbytes((count % 1000 + 7) // 8))
        case 2:
            return struct.pack(">BIB", 5, stream, chance.randrange(256))
        case 3:
            return b"\x04\x05" + chance.randbytes(5)
        case _:
            return chance.randbytes(chance.randrange(20))
