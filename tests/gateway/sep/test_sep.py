"""Requests and answers over UDP, in all weathers, and against who means harm."""

from __future__ import annotations

import asyncio
import socket
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dragoman.core.errors import ClientError, ConfigurationError, ReplyTimeout
from dragoman.gateway.sep import Operation, Reply, SepClient, SepLimits, SepServer, ServerKey, Suite
from dragoman.gateway.sep.datagram import MAX_DATAGRAM, Type
from dragoman.gateway.sep.keys import PublicKey
from tests.gateway.sep.relay import Relay, Weather

PATIENCE = 60.0


class Echo:
    """Answers with the request's body backwards, and counts each body."""

    def __init__(self) -> None:
        self.seen: Counter[bytes] = Counter()

    async def __call__(self, operation: Operation, body: bytes, peer: Any) -> Reply:
        self.seen[body] += 1
        return Reply(200 + operation, body[::-1])


@pytest.fixture(scope="module", params=list(Suite), ids=lambda suite: suite.name)
def key(request: pytest.FixtureRequest) -> ServerKey:
    return ServerKey.generate(request.param)


@pytest.fixture(scope="module")
def any_key() -> ServerKey:
    """Where the suite makes no difference."""
    return ServerKey.generate()


@pytest.fixture
def echo() -> Echo:
    return Echo()


@asynccontextmanager
async def behind(server: SepServer, weather: Weather | None = None, seed: int = 1) -> AsyncIterator[Relay]:
    async with server, Relay(server.address, weather, seed) as relay:
        yield relay


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not condition():
            await asyncio.sleep(0.01)


async def test_a_drop_off_is_answered_with_one_datagram_each_way(echo: Echo) -> None:
    """The network lets only the first datagram of each side through."""
    key, seen = ServerKey.generate(Suite.X25519), set[bool]()

    def first_of_each(data: bytes) -> bytes | None:
        side = data[0] in (Type.RETRY, Type.ACCEPT)
        if side in seen:
            return None
        seen.add(side)
        return data

    async with (
        behind(SepServer(echo, key), Weather(change=first_of_each)) as relay,
        SepClient(*relay.address, key.public) as client,
    ):
        assert await client.request(Operation.DROP_OFF, b"where?", PATIENCE) == Reply(201, b"?erehw")


async def test_large_messages_go_in_parts_of_no_more_than_1200_bytes(key: ServerKey, echo: Echo) -> None:
    body = bytes(range(256)) * 1500
    async with behind(SepServer(echo, key)) as relay, SepClient(*relay.address, key.public) as client:
        assert (await client.request(Operation.DROP_OFF, body, PATIENCE)).body == body[::-1]
        assert max(map(len, [*relay.to_server, *relay.to_client])) <= MAX_DATAGRAM
        assert echo.seen == {body: 1}


@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_nothing_is_lost_and_nothing_done_twice_in_bad_weather(
    key: ServerKey, echo: Echo, seed: int
) -> None:
    """A fifth of all datagrams is lost, a fifth comes twice, and many overtake each other."""
    weather = Weather(loss=0.2, repetition=0.2, delay=0.02)
    bodies = [b"%d " % number * (1 if number % 5 else 3000) for number in range(30)]
    async with (
        behind(SepServer(echo, key), weather, seed) as relay,
        SepClient(*relay.address, key.public) as client,
    ):
        replies = await asyncio.gather(
            *(client.request(Operation.DROP_OFF, body, PATIENCE) for body in bodies)
        )
    assert [reply.body for reply in replies] == [body[::-1] for body in bodies]
    assert echo.seen == Counter(bodies)


async def test_a_changed_datagram_is_dropped_and_sent_again(key: ServerKey, echo: Echo) -> None:
    flips = iter([True, False] * 3)

    def flip(data: bytes) -> bytes:
        return data[:-1] + bytes([data[-1] ^ 1]) if next(flips, False) else data

    server = SepServer(echo, key)
    async with (
        behind(server, Weather(change=flip)) as relay,
        SepClient(*relay.address, key.public) as client,
    ):
        assert (await client.request(Operation.DROP_OFF, b"abc", PATIENCE)).body == b"cba"
        assert server.counts["refused"] + client.counts["refused"] >= 1
    assert echo.seen == {b"abc": 1}


async def test_recorded_datagrams_do_nothing_when_they_are_sent_again(key: ServerKey, echo: Echo) -> None:
    server = SepServer(echo, key)
    async with behind(server) as relay:
        async with SepClient(*relay.address, key.public) as client:
            await client.request(Operation.DROP_OFF, b"pay", PATIENCE)
        await until(lambda: len(relay.to_server) >= 3)
        recorded = list(relay.to_server)
        before = server.counts["datagrams"]
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as attacker:
            for data in recorded:
                attacker.sendto(data, server.address)
            await until(lambda: server.counts["datagrams"] >= before + len(recorded))
    assert echo.seen == {b"pay": 1}


async def test_an_answer_to_an_unproven_address_is_never_larger_than_the_question(key: ServerKey) -> None:
    """Somebody with a forged address asks for much: the server sends no more than it got."""

    async def much(operation: Operation, body: bytes, peer: Any) -> Reply:
        return Reply(200, bytes(100_000))

    server = SepServer(much, key)
    deaf = Weather(change=lambda data: data if data[0] in (Type.INIT, Type.EARLY) else None)
    async with behind(server, deaf) as relay, SepClient(*relay.address, key.public) as client:
        with pytest.raises(ReplyTimeout):
            await client.request(Operation.DROP_OFF, b"x", 1.0)
        await until(lambda: server.counts["held back"] > 0)
        assert sum(map(len, relay.to_client)) <= sum(map(len, relay.to_server))


async def test_small_openings_get_no_answer(
    key: ServerKey, echo: Echo, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dragoman.gateway.sep.client.padded", lambda inside, head: inside)
    server = SepServer(echo, key)
    async with behind(server) as relay, SepClient(*relay.address, key.public) as client:
        with pytest.raises(ReplyTimeout):
            await client.request(Operation.DROP_OFF, b"x", 0.5)
        await until(lambda: server.counts["unpadded"] > 0)
        assert relay.to_client == []


async def test_a_busy_server_asks_for_a_cookie_in_each_session(key: ServerKey, echo: Echo) -> None:
    server = SepServer(echo, key, limits=SepLimits(unproven=0))
    async with behind(server) as relay, SepClient(*relay.address, key.public) as client:
        assert (await client.request(Operation.DROP_OFF, b"ab", PATIENCE)).body == b"ba"
        asked_for = server.counts["retries"]
        assert asked_for >= 1
        assert server.unproven == 0
        client._link = None
        assert (await client.request(Operation.DROP_OFF, b"cd", PATIENCE)).body == b"dc"
        assert server.counts["retries"] > asked_for


@pytest.mark.parametrize("operation", list(Operation))
async def test_a_recorded_first_flight_does_nothing_at_another_server_that_could_be_missed(
    key: ServerKey, operation: Operation
) -> None:
    """Also after a restart: the second server knows the key, and nothing of what the first one took."""
    first, second = Echo(), Echo()
    elsewhere = SepServer(second, key)
    async with behind(SepServer(first, key)) as relay, elsewhere:
        async with SepClient(*relay.address, key.public) as client:
            assert (await client.request(operation, b"ab", PATIENCE)).body == b"ba"
        recorded = [data for data in relay.to_server if data[0] in (Type.INIT, Type.EARLY)]
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as attacker:
            for data in recorded:
                attacker.sendto(data, elsewhere.address)
            await until(lambda: elsewhere.counts["datagrams"] == len(recorded))
        assert elsewhere.sessions == 1
        if operation is Operation.DROP_OFF:
            # The gateway tells a repeated one by its request id.
            await until(lambda: second.seen == {b"ab": 1})
        async with SepClient(*elsewhere.address, key.public) as client:
            assert (await client.request(Operation.COLLECT, b"cd", PATIENCE)).body == b"dc"
        assert second.seen[b"ab"] == (operation is Operation.DROP_OFF)
    assert first.seen == {b"ab": 1}


async def test_requests_that_wait_for_their_client_are_bounded(any_key: ServerKey, echo: Echo) -> None:
    """Their clients are never heard again, since nothing of the server reaches them."""
    server = SepServer(echo, any_key, limits=SepLimits(assembling=8 * 1024, streams=64))
    deaf = Weather(change=lambda data: data if data[0] in (Type.INIT, Type.EARLY) else None)
    async with behind(server, deaf) as relay, SepClient(*relay.address, any_key.public) as client:
        asked = [
            asyncio.create_task(client.request(Operation.COLLECT, b"%d" % n, PATIENCE)) for n in range(30)
        ]
        await until(lambda: server.counts["refused streams"] > 0)
        assert 0 < server.assembling <= 8 * 1024
        for each in asked:
            each.cancel()
        for session in list(server._sessions.values()):
            session.close()
        assert server.assembling == 0
    assert not echo.seen


async def test_a_client_whose_clock_is_wrong_learns_the_time(key: ServerKey, echo: Echo) -> None:
    server = SepServer(echo, key)
    async with behind(server) as relay, SepClient(*relay.address, key.public) as client:
        client._clock_off = -3_600_000
        assert (await client.request(Operation.DROP_OFF, b"ab", PATIENCE)).body == b"ba"
        assert server.counts["retries"] >= 1
        assert abs(client._clock_off) < 60_000


async def test_a_client_goes_on_when_its_server_was_killed_and_started_again(any_key: ServerKey) -> None:
    first, second = Echo(), Echo()
    async with SepServer(first, any_key) as server:
        relay = Relay(server.address)
        await relay.__aenter__()
        client = SepClient(*relay.address, any_key.public)
        await client.__aenter__()
        await client.request(Operation.DROP_OFF, b"one", PATIENCE)
        address = server.address
    async with SepServer(second, any_key, port=address[1]):
        try:
            assert (await client.request(Operation.DROP_OFF, b"two", PATIENCE)).body == b"owt"
        finally:
            await client.__aexit__()
            await relay.__aexit__()
    assert client.counts["reopened"] >= 1
    assert second.seen == {b"two": 1}


async def test_a_slow_answer_is_waited_for_and_the_work_is_done_once(any_key: ServerKey) -> None:
    seen: Counter[bytes] = Counter()
    go = asyncio.Event()

    async def slow(operation: Operation, body: bytes, peer: Any) -> Reply:
        seen[body] += 1
        await go.wait()
        return Reply(200, b"done")

    server = SepServer(slow, any_key)
    async with behind(server) as relay, SepClient(*relay.address, any_key.public) as client:
        asked = asyncio.create_task(client.request(Operation.DROP_OFF, b"x", PATIENCE))
        await until(lambda: len(relay.to_server) >= 4)
        go.set()
        assert (await asked).body == b"done"
    assert seen == {b"x": 1}


async def test_a_server_that_stops_finishes_what_is_under_way(any_key: ServerKey) -> None:
    begun, go = asyncio.Event(), asyncio.Event()

    async def slow(operation: Operation, body: bytes, peer: Any) -> Reply:
        begun.set()
        await go.wait()
        return Reply(200, b"done")

    server = await SepServer(slow, any_key).__aenter__()
    async with SepClient(*server.address, any_key.public) as client:
        asked = asyncio.create_task(client.request(Operation.DROP_OFF, b"x", PATIENCE))
        await until(begun.is_set)
        stopping = asyncio.create_task(server.__aexit__())
        await asyncio.sleep(0)
        go.set()
        assert (await asked).body == b"done"
        await stopping


async def test_messages_and_streams_beyond_the_limits_are_refused(key: ServerKey, echo: Echo) -> None:
    limits = SepLimits(message=10_000, streams=2)
    server = SepServer(echo, key, limits=limits)
    wide = replace(limits, message=1_000_000, streams=10)
    async with behind(server) as relay, SepClient(*relay.address, key.public, limits=wide) as client:
        with pytest.raises(ClientError, match="larger than the server takes"):
            await client.request(Operation.DROP_OFF, bytes(100_000), PATIENCE)
        with pytest.raises(ClientError, match="bytes"):
            await client.request(Operation.DROP_OFF, bytes(2_000_000), PATIENCE)
        assert (await client.request(Operation.DROP_OFF, b"ab", PATIENCE)).body == b"ba"
    assert echo.seen == {b"ab": 1}


async def test_sessions_are_bounded_and_the_silent_ones_are_forgotten(any_key: ServerKey, echo: Echo) -> None:
    server = SepServer(echo, any_key, limits=SepLimits(sessions=3, idle=0.2))
    async with server:
        clients = [SepClient(*server.address, any_key.public) for _ in range(6)]
        for client in clients:
            await client.__aenter__()
            await client.request(Operation.DROP_OFF, b"x", PATIENCE)
            assert len(server._sessions) <= 3
        await until(lambda: not server._sessions)
        assert server.unproven == 0
        assert (await clients[0].request(Operation.DROP_OFF, b"again", PATIENCE)).body == b"niaga"
        for client in clients:
            await client.__aexit__()


async def test_a_handler_that_fails_is_answered_with_500_and_no_details(key: ServerKey) -> None:
    async def fail(operation: Operation, body: bytes, peer: Any) -> Reply:
        raise RuntimeError("secret")

    async with SepServer(fail, key) as server, SepClient(*server.address, key.public) as client:
        assert await client.request(Operation.DROP_OFF, b"x", PATIENCE) == Reply(500)


async def test_another_server_cannot_stand_in(any_key: ServerKey, echo: Echo) -> None:
    other = ServerKey.generate(any_key.public.suite)
    async with SepServer(echo, other) as server, SepClient(*server.address, any_key.public) as client:
        with pytest.raises(ReplyTimeout):
            await client.request(Operation.DROP_OFF, b"x", 0.5)
    assert not echo.seen


async def test_a_port_that_cannot_be_listened_on_is_told(any_key: ServerKey) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.bind(("127.0.0.1", 0))
        for port in (other.getsockname()[1], 70_000):
            with pytest.raises(ConfigurationError, match="SEP cannot listen"):
                await SepServer(Echo(), any_key, port=port).__aenter__()


def test_keys_are_kept_in_a_file_for_the_owner_alone(tmp_path: Path, key: ServerKey) -> None:
    path = tmp_path / "sep.key"
    key.write(path)
    assert path.stat().st_mode & 0o077 == 0
    assert ServerKey.read(path).public == key.public
    assert PublicKey.from_text(key.public.text()) == key.public
    with pytest.raises(ConfigurationError):
        key.write(path)
    path.write_text("{}")
    with pytest.raises(ConfigurationError):
        ServerKey.read(path)
    for text in ("", "abc", "%%%", "A" * 2000):
        with pytest.raises(ConfigurationError):
            PublicKey.from_text(text)
