"""However a subscriber or an interceptor ends, it is counted, and the topic goes on."""

from __future__ import annotations

import asyncio
import contextlib
import gc
from collections.abc import Callable
from typing import Any

import pytest

from dragoman.adapters.memory import MemoryBroker
from dragoman.topology import Interceptor, Multipart, Passage, Topology
from dragoman.topology.admins.broker import BrokerAdmin
from dragoman.topology.metrics import TopicMetrics
from tests.client.conftest import payloads
from tests.client.test_endings import FAILING, SUCCEEDING, End, PanicException, named, this_task
from tests.topology.records import Price
from tests.topology.world import LOOPBACK, Inbox, allowed, linked, memory_url, until

COUNT = 8
BAD = 3


class Ending(Inbox):
    def __init__(self, end: End) -> None:
        super().__init__()
        self.calls = 0
        self._end = end

    async def receive(self, message: Price, multipart: Multipart) -> None:
        if message.bid == BAD:
            self.calls += 1
            await self._end()
        await asyncio.sleep(0)
        await super().receive(message, multipart)


async def memory_admin() -> BrokerAdmin:
    broker = MemoryBroker(memory_url())
    await broker.connect()
    return BrokerAdmin(broker, frozenset({"avro"}))


def metrics_of(topology: Topology) -> TopicMetrics:
    return topology.metrics.of(topology.slots[0].topic)


def bids(inbox: Inbox) -> list[float]:
    return [price.bid for price in inbox.got]


async def send_all(topology: Topology) -> None:
    publisher = await topology.publisher("prices")
    await linked(topology)
    for number in range(COUNT):
        await publisher.send(Price("a", float(number)))


OTHERS = [float(number) for number in range(COUNT) if number != BAD]
ALL = [float(number) for number in range(COUNT)]


@pytest.mark.parametrize("end", FAILING, ids=named)
async def test_a_multicast_subscriber_that_ends_in_any_way_has_failed_and_the_topic_goes_on(end: End) -> None:
    inbox, other = Ending(end), Inbox()
    async with Topology([LOOPBACK], registry=allowed()) as topology:
        await topology.offer("prices", inbox).wait(30)
        await topology.offer("prices", other).wait(30)
        await send_all(topology)
        metrics = metrics_of(topology)
        await until(lambda: (metrics.handled, metrics.failed) == (COUNT - 1, 1))
        assert bids(inbox) == OTHERS
        assert bids(other) == ALL


@pytest.mark.parametrize("end", FAILING, ids=named)
async def test_a_message_whose_subscriber_ends_in_any_way_goes_to_the_dead_letters(end: End) -> None:
    inbox, other, admin = Ending(end), Inbox(), await memory_admin()
    async with Topology([admin], registry=allowed()) as topology:
        await topology.offer("prices", inbox).wait(30)
        await topology.offer("prices", other).wait(30)
        await send_all(topology)
        metrics = metrics_of(topology)
        await until(lambda: metrics.handled == COUNT - 1)
        assert (inbox.calls, metrics.failed) == (3, 3)
        assert len(payloads(admin._broker, "prices.avro.dead")) == 1
        assert bids(inbox) == OTHERS
        assert bids(other) == ALL


@pytest.mark.parametrize("url", [LOOPBACK, "memory"])
@pytest.mark.parametrize("end", SUCCEEDING, ids=named)
async def test_a_subscriber_that_returns_has_handled_its_message_and_harms_no_other(
    end: End, url: str
) -> None:
    """Though it has cancelled the task that the other subscribers run in, too."""

    async def at_once(message: Price, multipart: Multipart) -> None:
        if message.bid == BAD:
            await end()

    other = Inbox()

    async def after(message: Price, multipart: Multipart) -> None:
        await asyncio.sleep(0)
        await other.receive(message, multipart)

    admin = url if url == LOOPBACK else await memory_admin()
    async with Topology([admin], registry=allowed()) as topology:
        await topology.offer("prices", at_once).wait(30)
        await topology.offer("prices", after).wait(30)
        await send_all(topology)
        metrics = metrics_of(topology)
        await until(lambda: metrics.handled == COUNT)
        assert metrics.failed == 0
        assert bids(other) == ALL


def panic() -> None:
    raise PanicException


def raise_a_cancellation() -> None:
    raise asyncio.CancelledError


def raise_a_generators_end() -> None:
    raise GeneratorExit


def cancel_the_task() -> None:
    this_task().cancel()


class Watching(Interceptor):
    def __init__(self, before: Callable[[], None], after: Callable[[], None]) -> None:
        self._before, self._after = before, after

    def before_receive(self, passage: Passage) -> bool:
        if passage.objects[0].bid == BAD:
            self._before()
        return True

    def after_receive(self, passage: Passage) -> None:
        if passage.objects[0].bid == BAD:
            self._after()


def nothing() -> None: ...


@pytest.mark.parametrize("url", [LOOPBACK, "memory"])
@pytest.mark.parametrize("end", [panic, raise_a_cancellation, raise_a_generators_end], ids=named)
async def test_an_interceptor_that_ends_in_any_way_before_a_message_has_failed(
    end: Callable[[], None], url: str
) -> None:
    inbox = Inbox()
    admin: Any = url if url == LOOPBACK else await memory_admin()
    async with Topology([admin], registry=allowed(), interceptors=[Watching(end, nothing)]) as topology:
        await topology.offer("prices", inbox).wait(30)
        await send_all(topology)
        metrics = metrics_of(topology)
        await until(lambda: (metrics.handled, metrics.failed) == (COUNT - 1, 1))
        assert bids(inbox) == OTHERS
        if url != LOOPBACK:
            assert len(payloads(admin._broker, "prices.avro.dead")) == 1


@pytest.mark.parametrize("url", [LOOPBACK, "memory"])
@pytest.mark.parametrize(
    "watching",
    [
        *(Watching(nothing, end) for end in (panic, raise_a_cancellation, raise_a_generators_end)),
        Watching(nothing, cancel_the_task),
        Watching(cancel_the_task, nothing),
    ],
)
async def test_an_interceptor_that_ends_in_any_way_after_a_message_or_cancels_harms_no_message(
    watching: Watching, url: str
) -> None:
    inbox = Ending(end=nothing_later)
    admin = url if url == LOOPBACK else await memory_admin()
    async with Topology([admin], registry=allowed(), interceptors=[watching]) as topology:
        await topology.offer("prices", inbox).wait(30)
        await send_all(topology)
        metrics = metrics_of(topology)
        await until(lambda: metrics.handled == COUNT)
        assert metrics.failed == 0
        assert bids(inbox) == ALL


async def nothing_later() -> None:
    await asyncio.sleep(0)


@pytest.mark.parametrize("url", [LOOPBACK, "memory"])
@pytest.mark.parametrize("error", [PanicException, RecursionError, ValueError])
async def test_a_message_whose_codec_fails_in_any_way_is_invalid_and_the_topic_goes_on(
    error: type[BaseException], url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    inbox = Inbox()
    admin: Any = url if url == LOOPBACK else await memory_admin()
    async with Topology([admin], registry=allowed()) as topology:
        decoder = topology._shared.codecs.decoder

        def breaking(*arguments: Any) -> Callable[[bytes], Any]:
            decode = decoder(*arguments)

            def read(frame: bytes) -> Any:
                value = decode(frame)
                if value.bid == BAD:
                    raise error
                return value

            return read

        monkeypatch.setattr(topology._shared.codecs, "decoder", breaking)
        await topology.offer("prices", inbox).wait(30)
        await send_all(topology)
        metrics = metrics_of(topology)
        await until(lambda: metrics.handled == COUNT - 1)
        assert (metrics.invalid, metrics.failed) == (1, 0)
        assert bids(inbox) == OTHERS
        if url != LOOPBACK:
            assert len(payloads(admin._broker, "prices.avro.invalid")) == 1


@pytest.mark.parametrize("swallows", [False, True])
async def test_a_topology_closes_at_once_while_a_multicast_subscriber_is_busy(swallows: bool) -> None:
    begun = asyncio.Event()

    async def busy(message: Price, multipart: Multipart) -> None:
        begun.set()
        with contextlib.suppress(asyncio.CancelledError if swallows else ValueError):
            await asyncio.Event().wait()

    async with asyncio.timeout(60), Topology([LOOPBACK], registry=allowed()) as topology:
        await topology.offer("prices", busy).wait(30)
        await send_all(topology)
        await begun.wait()
    assert metrics_of(topology).failed == 0


def test_a_program_ends_though_its_topology_is_not_closed_and_a_subscriber_is_busy() -> None:
    """The event loop cancels all of its tasks then. That is not taken for a failure of the subscriber."""
    kept = []

    async def program() -> None:
        begun = asyncio.Event()

        async def busy(message: Price, multipart: Multipart) -> None:
            begun.set()
            await asyncio.Event().wait()

        topology = Topology([LOOPBACK], registry=allowed())
        kept.append(topology)
        await topology.__aenter__()
        await topology.offer("prices", busy).wait(30)
        await send_all(topology)
        await begun.wait()

    asyncio.run(asyncio.wait_for(program(), 60))
    kept.clear()
    gc.collect()
