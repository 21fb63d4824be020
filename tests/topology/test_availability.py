"""Publishers appear, are replaced and disappear; admins and discoveries come and go."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from dragoman.adapters.memory import MemoryBroker
from dragoman.core.broker import Receiver, Subscription
from dragoman.core.clock import ManualClock
from dragoman.core.errors import (
    BrokerUnavailable,
    ConfigurationError,
    PublisherUnavailable,
    TopologyConflict,
)
from dragoman.topology import Change, Endpoint, Role, Topic, Topology
from dragoman.topology.admin import Wanted
from dragoman.topology.admins.broker import BrokerAdmin, BrokerSender
from tests.topology.records import Price
from tests.topology.world import LOOPBACK, Inbox, allowed, memory_url, slot_of, until


class Recording:
    """A discovery that writes down what it is told, and when the sender was closed."""

    def __init__(self, log: list[str]) -> None:
        self.url = "recording://"
        self.trouble: str | None = None
        self.log = log
        self.announced: dict[str, Endpoint] = {}

    async def start(self, framework: str, watcher: object) -> None: ...

    async def synced(self) -> None: ...

    def announce(self, endpoint: Endpoint) -> None:
        assert endpoint.properties()["pubsub.topic"], "never announced before it is whole"
        self.announced[endpoint.id] = endpoint
        self.log.append(f"announce {endpoint.admin}")

    async def withdraw(self, endpoint: Endpoint) -> None:
        self.announced.pop(endpoint.id, None)
        self.log.append(f"withdraw {endpoint.admin}")

    def endpoints(self) -> list[Endpoint]:
        return []

    async def close(self) -> None: ...


async def test_a_program_waits_for_a_publisher_or_goes_on_without() -> None:
    async with Topology([], registry=allowed()) as topology:
        request = topology.request("prices")
        assert request.publisher is None
        waiting = asyncio.create_task(request.wait(60))
        await topology.add_admin(memory_url())
        publisher = await waiting
        assert request.publisher is publisher
        await publisher.send(Price("a", 1.0))


async def test_programs_in_one_folder_talk_without_any_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DRAGOMAN_BROKER", raising=False)
    monkeypatch.delenv("DRAGOMAN_REGISTRY", raising=False)
    inbox = Inbox()
    async with Topology() as receiving, Topology() as sending:
        await receiving.offer("prices", inbox).wait(60)
        await (await sending.publisher("prices")).send(Price("a", 1.0))
        await inbox.has(1)


async def test_changes_are_told_by_iterator_and_callback() -> None:
    told: list[str] = []
    async with Topology([memory_url()], registry=allowed()) as topology:
        request = topology.request("prices", properties={"qos": "sample"})
        publisher = await request.wait(30)
        request.on_change(lambda change: told.append(f"{change.change} {change.admin}"))
        changes = request.changes()
        assert (await anext(changes)).change is Change.APPEARED
        await topology.add_admin(LOOPBACK)
        replaced = await asyncio.wait_for(anext(changes), 60)
        assert (replaced.change, replaced.admin) == (Change.REPLACED, "multicast")
        assert request.publisher is publisher, "the program keeps what it has"
        await topology.remove_admin("multicast")
        await topology.remove_admin("memory")
        assert [(await asyncio.wait_for(anext(changes), 60)).change for _ in range(2)] == [
            Change.REPLACED,
            Change.GONE,
        ]
        assert told == ["appeared memory", "replaced multicast", "replaced memory", "gone None"]
        assert request.publisher is None
        request.close()
        with pytest.raises(StopAsyncIteration):
            await anext(changes)


async def test_no_message_is_lost_or_doubled_while_the_transport_is_replaced() -> None:
    """Defaults change the receiver again and again: the new one works before the old one goes."""
    inbox = Inbox()
    async with Topology([memory_url()], registry=allowed()) as topology:
        offer = topology.offer("prices", inbox)
        await offer.wait(30)
        publisher = await topology.publisher("prices")
        replaced = 0

        def count(change: object) -> None:
            nonlocal replaced
            replaced += getattr(change, "change", None) is Change.REPLACED

        offer.on_change(count)
        for number in range(300):
            await publisher.send(Price("a", float(number)))
            if number % 100 == 50:
                topology.set_defaults("memory", {"sub:queue.size": str(number)})
            await asyncio.sleep(0)
        await inbox.has(300)
        await until(lambda: replaced == 3)
        assert sorted(price.bid for price in inbox.got) == [float(number) for number in range(300)]


async def test_a_second_request_joins_and_a_conflicting_one_is_an_error() -> None:
    async with Topology([memory_url()], registry=allowed()) as topology:
        first = topology.request("prices", properties={"serializer": "json"})
        second = topology.request("prices")
        await asyncio.gather(first.wait(30), second.wait(30))
        assert len(topology.own_endpoints()) == 1
        for properties in ({"serializer": "avro"}, {"qos": "sample"}):
            with pytest.raises(TopologyConflict, match=next(iter(properties))):
                topology.request("prices", properties=properties)
        topology.request("prices", scope="other", properties={"serializer": "avro"})


async def test_what_nobody_uses_goes_after_the_delay_withdrawn_before_it_closes() -> None:
    log: list[str] = []
    clock = ManualClock()
    async with Topology([memory_url()], [Recording(log)], registry=allowed(), clock=clock) as topology:
        request = topology.request("prices")
        await request.wait(30)
        handler = slot_of(topology).handler
        assert handler is not None and handler.outlet is not None
        close = handler.outlet.sender.close

        async def closing() -> None:
            log.append("close")
            await close()

        handler.outlet.sender.close = closing  # type: ignore[method-assign]
        request.close()
        clock.advance(9.9)
        assert len(topology.slots) == 1
        clock.advance(0.2)
        await until(lambda: "close" in log)
        assert log == ["announce memory", "withdraw memory", "close"]
        assert topology.slots == ()


async def test_a_removal_is_cancelled_by_a_new_request() -> None:
    log: list[str] = []
    clock = ManualClock()
    async with Topology([memory_url()], [Recording(log)], registry=allowed(), clock=clock) as topology:
        request = topology.request("prices")
        await request.wait(30)
        for _ in range(3):
            request.close()
            clock.advance(6.0)
            request = topology.request("prices")
            assert request.available, "the sender was there all the time"
        clock.advance(60.0)
        await asyncio.sleep(0)
        assert log == ["announce memory"]


async def test_a_request_at_the_moment_of_removal_gets_a_publisher() -> None:
    clock = ManualClock()
    async with Topology([memory_url()], registry=allowed(), clock=clock) as topology:
        request = topology.request("prices")
        publisher = await request.wait(30)
        request.close()
        clock.advance(11.0)
        with pytest.raises(PublisherUnavailable, match="closed"):
            await publisher.send(Price("too late", 1.0))
        again = topology.request("prices")
        await (await again.wait(30)).send(Price("a", 1.0))
        await asyncio.sleep(0.01)
        assert again.available
        assert len(topology.own_endpoints()) == 1


async def test_a_removed_publisher_does_not_silence_others_on_its_channel() -> None:
    url, registry, inbox = memory_url(), allowed(), Inbox()
    async with Topology([url], registry=registry) as receiving, Topology([url], registry=registry) as one:
        json = {"serializer": "json"}
        await receiving.offer("prices", inbox).wait(30)
        staying = await one.publisher("prices", properties=json)
        receiving.endpoints.add("test", one.own_endpoints()[0])
        async with Topology([url], registry=registry) as other:
            await other.publisher("prices", properties=json)
            leaving = other.own_endpoints()[0]
            receiving.endpoints.add("test", leaving)
            await until(lambda: len(slot_of(receiving).handler.linked) == 2)  # type: ignore[union-attr]
        receiving.endpoints.remove("test", leaving)
        await until(lambda: len(slot_of(receiving).handler.linked) == 1)  # type: ignore[union-attr]
        await staying.send(Price("still here", 1.0))
        await inbox.has(1)


async def test_a_request_in_a_scope_is_found_under_its_scope() -> None:
    log: list[str] = []
    recording = Recording(log)
    async with Topology([memory_url()], [recording], registry=allowed()) as topology:
        request = topology.request("prices", scope="fx")
        assert (await request.wait(30)).topic == Topic("prices", "fx")
        (endpoint,) = recording.announced.values()
        properties = endpoint.properties()
        assert (properties["pubsub.topic"], properties["pubsub.scope"]) == ("prices", "fx")


async def test_a_publisher_knows_its_subscribers() -> None:
    async with Topology([memory_url()], registry=allowed()) as topology:
        request = topology.request("prices")
        waiting = asyncio.create_task(request.wait_for_subscribers(2, 60))
        topology.offer("prices", Inbox())
        there = Endpoint("elsewhere", 1, Role.SUBSCRIBER, Topic("prices"), "memory")
        topology.endpoints.add("test", there)
        await waiting
        topology.endpoints.remove("test", there)
        assert request.subscribers == 1


async def test_an_endpoint_known_to_two_discoveries_is_one_and_stays_until_both_lose_it() -> None:
    async with Topology([], registry=allowed()) as topology:
        there = Endpoint("elsewhere", 1, Role.PUBLISHER, Topic("prices"), "memory", "avro")
        for source in ("a", "b"):
            topology.endpoints.add(source, there)
        assert list(topology.endpoints) == [there]
        topology.endpoints.remove("a", there)
        assert list(topology.endpoints) == [there]
        topology.endpoints.forget("b")
        assert list(topology.endpoints) == []


class Flaky(MemoryBroker):
    """A broker that can be away."""

    away = False

    def _answer(self) -> None:
        if self.away:
            raise BrokerUnavailable("Nobody is there.")

    async def connect(self) -> None:
        self._answer()
        await super().connect()

    async def describe(self, channel: str):
        self._answer()
        return await super().describe(channel)

    async def publish(self, messages, delay=0.0):
        self._answer()
        return await super().publish(messages, delay)


async def test_a_broker_that_goes_and_comes_back_is_told_to_publishers_and_subscribers() -> None:
    broker, inbox, told = Flaky(memory_url()), Inbox(), []
    admin = BrokerAdmin(broker, frozenset({"avro"}), probe=0.05)
    async with Topology([admin], registry=allowed()) as topology:
        request, offer = topology.request("prices"), topology.offer("prices", inbox)
        publisher = await request.wait(30)
        await offer.wait(30)
        request.on_change(lambda change: told.append(change.change))
        broker.away = True
        await until(lambda: not request.available and not offer.available)
        broker.away = False
        await request.wait(60)
        await offer.wait(60)
        assert told == [Change.APPEARED, Change.GONE, Change.APPEARED]
        await publisher.send(Price("after", 1.0))
        await inbox.has(1)


async def test_topics_move_to_another_admin_when_their_broker_is_away() -> None:
    broker = Flaky(memory_url())
    admin = BrokerAdmin(broker, frozenset({"avro"}), probe=0.05)
    async with Topology([admin, LOOPBACK], registry=allowed()) as topology:
        request = topology.request("prices", properties={"qos": "control"})
        await request.wait(30)
        assert request.admin == "memory"
        broker.away = True
        await until(lambda: request.admin == "multicast")
        broker.away = False
        await until(lambda: request.admin == "memory")


async def test_a_broker_that_is_away_at_the_start_is_used_when_it_comes() -> None:
    broker = Flaky(memory_url())
    broker.away = True
    async with Topology(
        [BrokerAdmin(broker, frozenset({"avro"}), probe=0.05)], registry=allowed()
    ) as topology:
        request = topology.request("prices")
        await until(lambda: "Nobody is there" in request.why)
        broker.away = False
        await request.wait(60)


class Unopenable(BrokerAdmin):
    """Says that it can, and then cannot."""

    broken = True

    async def sender(self, wanted: Wanted) -> BrokerSender:
        if self.broken:
            raise BrokerUnavailable("It was only a promise.")
        return await super().sender(wanted)


async def test_the_next_best_admin_serves_while_the_best_cannot_open() -> None:
    admin = Unopenable(memory_url(), frozenset({"avro"}))
    async with Topology([admin, LOOPBACK], registry=allowed()) as topology:
        request = topology.request("prices")
        await request.wait(30)
        assert request.admin == "multicast"
        admin.broken = False
        await until(lambda: request.admin == "memory")


async def test_a_transport_that_works_is_kept_when_its_replacement_cannot_be_opened() -> None:
    admin = Unopenable(memory_url(), frozenset({"avro"}))
    admin.broken = False
    async with Topology([admin], registry=allowed()) as topology:
        request = topology.request("prices")
        publisher = await request.wait(30)
        admin.broken = True
        topology.set_defaults("memory", {"pub:queue.size": "9"})
        await until(lambda: "promise" in slot_of(topology).why)
        assert request.available
        await publisher.send(Price("a", 1.0))
        await topology.remove_admin("memory")
        assert not request.available


class Hesitant(MemoryBroker):
    """Refuses the first subscription to one channel."""

    refuses = "prices.cbor"

    async def subscribe(self, subscription: Subscription) -> Receiver:
        if self.refuses in subscription.channels:
            self.refuses = ""
            raise BrokerUnavailable("Not yet.")
        return await super().subscribe(subscription)


async def test_a_publisher_that_could_not_be_connected_at_first_is_tried_again() -> None:
    url, inbox = memory_url(), Inbox()
    admin = BrokerAdmin(Hesitant(url), frozenset({"avro", "cbor"}))
    async with (
        Topology([url], registry=allowed()) as sending,
        Topology([admin], registry=allowed()) as receiving,
    ):
        publisher = await sending.publisher("prices", properties={"serializer": "cbor"})
        receiving.endpoints.add("test", sending.own_endpoints()[0])
        offer = receiving.offer("prices", inbox, properties={"serializer": "avro"})
        await offer.wait_for_publishers(1, 60)
        await publisher.send(Price("a", 1.0))
        await inbox.has(1)


async def test_a_topology_that_cannot_start_leaves_nothing_behind() -> None:
    recording: list[str] = []
    topology = Topology(["memory://", "memory://"], [Recording(recording)], registry=allowed())
    with pytest.raises(ConfigurationError):
        await topology.__aenter__()
    assert len(asyncio.all_tasks()) == 1


async def test_two_admins_of_one_type_are_refused() -> None:
    async with Topology([memory_url()], registry=allowed()) as topology:
        with pytest.raises(ConfigurationError, match="already"):
            await topology.add_admin(memory_url())
        with pytest.raises(ConfigurationError, match="no admin"):
            await topology.remove_admin("kafka")


async def test_closing_tells_everyone_that_it_is_gone() -> None:
    log: list[str] = []
    async with Topology([memory_url()], [Recording(log)], registry=allowed()) as topology:
        request = topology.request("prices")
        await request.wait(30)
        seen = [change.change async for change in _closing(topology, request)]
    assert seen == [Change.APPEARED, Change.GONE]
    assert log == ["announce memory", "withdraw memory"]


async def _closing(topology: Topology, request):
    changes = request.changes()
    yield await anext(changes)
    await topology.close()
    async for change in changes:
        yield change


async def test_who_waits_is_told_when_the_topology_closes() -> None:
    topology = Topology([], registry=allowed())
    async with topology:
        request, offer = topology.request("prices"), topology.offer("prices", Inbox())
        waiting = [
            asyncio.create_task(each)
            for each in (
                request.wait(),
                request.wait_for_subscribers(),
                offer.wait(),
                offer.wait_for_publishers(),
            )
        ]
        await asyncio.sleep(0)
    for each in waiting:
        with pytest.raises(PublisherUnavailable, match="closed"):
            await asyncio.wait_for(each, 30)
    assert not request.available
    with pytest.raises(ConfigurationError, match="closed"):
        topology.request("prices")


async def test_a_publisher_that_did_not_come_in_time_is_not_waited_for_any_more() -> None:
    async with Topology([], registry=allowed()) as topology:
        with pytest.raises(PublisherUnavailable, match="There is no admin"):
            await topology.publisher("prices", timeout=0.01)
        assert slot_of(topology).users == []


async def test_a_discovery_that_cannot_start_is_not_kept(tmp_path: Path) -> None:
    async with Topology([], registry=allowed()) as topology:
        with pytest.raises(ConfigurationError, match="cannot be read"):
            await topology.add_discovery(f"file://{tmp_path}/nosuch.json")
        assert topology.discoveries == ()
        with pytest.raises(ConfigurationError, match="not in use"):
            await topology.remove_discovery(Recording([]))


@pytest.mark.parametrize("argument", ["admins", "discoveries"])
def test_one_url_where_several_are_wanted_is_refused(argument: str) -> None:
    with pytest.raises(ConfigurationError, match="Give a list"):
        Topology(**{argument: "etcd://localhost:2379"}, registry=allowed())
