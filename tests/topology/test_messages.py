"""Messages from publishers to subscribers, over brokers and multicast, with every serializer."""

from __future__ import annotations

import asyncio
import ipaddress
import re
from dataclasses import replace
from pathlib import Path
from time import monotonic
from types import SimpleNamespace
from typing import Any

import pytest

from dragoman import Client, ClientOptions, Naming, endpoint, record
from dragoman.adapters.memory import MemoryBroker
from dragoman.core.errors import ConfigurationError, Conflict, EncodeError
from dragoman.core.message import Message
from dragoman.registry import connect
from dragoman.topology import AllowList, Endpoint, Flag, Interceptor, Multipart, Passage, Topic, Topology
from dragoman.topology.admins.broker import BrokerAdmin
from dragoman.topology.admins.multicast import receiver as receiver_module
from dragoman.topology.admins.multicast.course import Source
from dragoman.topology.admins.multicast.datagram import DATA, Datagram, beat, single, topic_hash
from dragoman.topology.admins.multicast.seals import Sealed, Sealer
from dragoman.topology.admins.multicast.sockets import Group, Listener, Network, Outgoing
from dragoman.topology.metrics import Metrics, Origin, TopicMetrics
from dragoman.topology.signing import Signer, new_key
from tests.client.conftest import payloads
from tests.topology.records import Note, Price, Quote
from tests.topology.world import LOOPBACK, Inbox, allowed, linked, memory_url, until

SERIALIZERS = ("avro", "json", "cbor")


@pytest.fixture(params=["memory", "embedded", "multicast"])
def admin(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return {"memory": memory_url(), "embedded": f"embedded://{tmp_path}/broker", "multicast": LOOPBACK}[
        request.param
    ]


async def test_a_receiver_handles_all_serializers_at_once(admin: str) -> None:
    """Three programs publish on one topic, each with its own serializer."""
    registry, inbox = allowed(), Inbox()
    async with Topology([admin], registry=registry) as receiving:
        await receiving.offer("prices", inbox).wait(30)
        for number, serializer in enumerate(SERIALIZERS, 1):
            async with Topology([admin], registry=registry) as sending:
                publisher = await sending.publisher("prices", properties={"serializer": serializer})
                for endpoint in sending.own_endpoints():
                    receiving.endpoints.add("test", endpoint)
                await linked(receiving, number)
                await publisher.send_multipart(Price(serializer, 1.5), Flag.FIRST)
                await publisher.send_multipart(Quote("q", number, b"\x00\xff"), Flag.LAST)
                await inbox.has(number)
        assert [price.symbol for price in inbox.got] == list(SERIALIZERS)
        assert [each.get(Quote) for each in inbox.multiparts] == [
            Quote("q", number, b"\x00\xff") for number in (1, 2, 3)
        ]
        assert receiving.metrics.topics[inbox_topic(receiving)].missing == 0


def inbox_topic(topology: Topology) -> Any:
    return topology.slots[0].topic


async def test_a_single_object_is_a_message_that_every_client_can_read() -> None:
    broker = MemoryBroker(memory_url())
    await broker.connect()
    registry = connect("memory://")
    got: list[Price] = []

    @endpoint("prices.avro", group="plain")
    async def on_price(price: Price) -> None:
        got.append(price)

    admin = BrokerAdmin(broker, frozenset({"avro"}))
    options = ClientOptions(naming=Naming.CHANNEL_RECORD)
    async with Topology([admin], registry=registry) as topology:
        publisher = await topology.publisher("prices")
        async with Client(broker, registry, [on_price], options=options):
            await publisher.send(Price("a", 1.0))
            await until(lambda: got == [Price("a", 1.0)])
    await registry.close()


async def test_the_same_topic_in_another_scope_is_another_topic(admin: str) -> None:
    plain, scoped, clash = Inbox(), Inbox(), Inbox()
    async with Topology([admin], registry=allowed()) as topology:
        for inbox, topic, scope in (
            (plain, "prices", None),
            (scoped, "prices", "fx"),
            (clash, "fx.prices", None),
        ):
            await topology.offer(topic, inbox, scope=scope).wait(30)
        publisher = await topology.publisher("prices", scope="fx")
        await linked(topology)
        for bid in (1.0, 2.0):
            await publisher.send(Price("scoped", bid))
        await scoped.has(2)
        other = await topology.publisher("prices")
        await linked(topology, 2)
        await other.send(Price("plain", 1.0))
        await plain.has(1)
        assert [price.symbol for price in scoped.got] == ["scoped", "scoped"]
        assert [price.symbol for price in plain.got] == ["plain"]
        assert clash.got == []


async def test_a_subscriber_gets_only_the_types_it_allows() -> None:
    async with Topology([memory_url()], registry=allowed()) as topology:
        inbox, everything = Inbox(), []
        await topology.offer("prices", inbox).wait(30)
        await topology.offer("prices", lambda message, multipart: everything.append(message)).wait(30)
        publisher = await topology.publisher("prices")
        await publisher.send(Note("not for all"))
        await publisher.send(Price("a", 1.0))
        await inbox.has(1)
        assert inbox.got == [Price("a", 1.0)]
        assert everything == [{"text": "not for all"}, {"symbol": "a", "bid": 1.0}]


async def test_a_type_that_nobody_allowed_is_never_made() -> None:
    """The sender knows a class that the receiver's list does not have: no name from the wire is imported."""
    broker = MemoryBroker(memory_url())
    await broker.connect()
    inbox = Inbox()
    admins = [BrokerAdmin(broker, frozenset({"avro"})) for _ in range(2)]
    async with Topology([admins[0]], registry=AllowList([Price])) as receiving:
        await receiving.offer("prices", inbox).wait(30)
        async with Topology([admins[1]], registry=allowed()) as sending:
            publisher = await sending.publisher("prices")
            await publisher.send(Note("evil"))
            await publisher.send(Price("good", 1.0))
            await inbox.has(1)
        assert inbox.got == [Price("good", 1.0)]
        assert receiving.metrics.topics[inbox_topic(receiving)].invalid == 1
        letters = payloads(broker, "prices.avro.invalid")
        assert [letter.header("dragoman-error-code") for letter in letters] == [b"message.unknown-schema"]


async def test_a_message_whose_subscriber_keeps_failing_goes_to_the_dead_letters() -> None:
    broker = MemoryBroker(memory_url())
    await broker.connect()
    calls: list[str] = []

    async def failing(price: Price, multipart: Multipart) -> None:
        calls.append(price.symbol)
        if price.symbol == "bad":
            raise RuntimeError("no")

    async with Topology([BrokerAdmin(broker, frozenset({"avro"}))], registry=allowed()) as topology:
        await topology.offer("prices", failing).wait(30)
        publisher = await topology.publisher("prices")
        await publisher.send(Price("bad", 1.0))
        await publisher.send(Price("good", 1.0))
        await until(lambda: "good" in calls)
        assert calls == ["bad", "bad", "bad", "good"]
        assert len(payloads(broker, "prices.avro.dead")) == 1
        assert topology.metrics.topics[inbox_topic(topology)].failed == 3


async def test_a_durable_group_gets_what_came_while_its_subscriber_was_away() -> None:
    url, registry, inbox = memory_url(), allowed(), Inbox()
    mine = {"memory.group": "billing"}
    async with Topology([url], registry=registry) as sending:
        publisher = await sending.publisher("prices")
        async with Topology([url], registry=registry) as first:
            offer = first.offer("prices", inbox, properties=mine)
            await offer.wait(30)
            await publisher.send(Price("seen", 1.0))
            await inbox.has(1)
            offer.close()
            await publisher.send(Price("nobody is there", 1.0))
            await until(lambda: first.metrics.topics[inbox_topic(first)].handled == 1)
        await publisher.send(Price("nor now", 1.0))
        later = Inbox()
        async with Topology([url], registry=registry) as second:
            await second.offer("prices", later, properties=mine).wait(30)
            await later.has(2)
        assert [price.symbol for price in later.got] == ["nobody is there", "nor now"]


async def test_the_publisher_decides_on_the_partitions_though_a_subscriber_came_first() -> None:
    broker = MemoryBroker(memory_url())
    await broker.connect()
    async with Topology([BrokerAdmin(broker, frozenset({"avro"}))], registry=allowed()) as topology:
        await topology.offer("prices", Inbox()).wait(30)
        assert (await broker.describe("prices.avro")).partitions == 1
        await topology.publisher("prices", properties={"memory.partitions": "3"})
        assert (await broker.describe("prices.avro")).partitions == 3


async def test_a_message_of_a_plain_client_is_received_in_any_scope() -> None:
    broker = MemoryBroker(memory_url())
    await broker.connect()
    inbox, registry = Inbox(), connect("memory://")
    async with Topology([BrokerAdmin(broker, frozenset({"avro"}))], registry=registry) as topology:
        await topology.offer("prices", inbox, scope="fx").wait(30)
        async with Client(broker, registry, options=ClientOptions(naming=Naming.CHANNEL_RECORD)) as client:
            await client.publish("fx.prices.avro", Price("plain", 1.0))
            await inbox.has(1)
    await registry.close()


async def test_rubbish_on_the_channel_stops_nobody() -> None:
    broker = MemoryBroker(memory_url())
    await broker.connect()
    inbox = Inbox()
    async with Topology([BrokerAdmin(broker, frozenset({"avro"}))], registry=allowed()) as topology:
        await topology.offer("prices", inbox).wait(30)
        publisher = await topology.publisher("prices")
        for payload in (b"", b"\x00\x00", b"\x01garbage", b"\x00\x00\x00\x00\x09x", None):
            await broker.publish([Message("prices.avro", payload)])
        await publisher.send(Price("good", 1.0))
        await inbox.has(1)
        assert len(payloads(broker, "prices.avro.invalid")) == 5


async def test_a_late_joiner_gets_what_was_sent_before_if_it_asks_for_it() -> None:
    late, usual = Inbox(), Inbox()
    url = memory_url()
    registry = allowed()
    async with Topology([url], registry=registry) as sending:
        publisher = await sending.publisher("prices")
        await publisher.send(Price("early", 1.0))
        async with Topology([url], registry=registry) as first, Topology([url], registry=registry) as second:
            wish = {"pubsub.intent.latejoiner": "late-joiner-support"}
            await first.offer("prices", late, properties=wish).wait(30)
            await second.offer("prices", usual).wait(30)
            await publisher.send(Price("now", 1.0))
            await late.has(2)
            await usual.has(1)
    assert [price.symbol for price in late.got] == ["early", "now"]
    assert [price.symbol for price in usual.got] == ["now"]


class Witness(Interceptor):
    def __init__(self) -> None:
        self.seen: list[tuple[str, Any]] = []

    def before_send(self, passage: Passage) -> bool:
        passage.metadata["trace"] = b"t-1"
        self.seen.append(("before send", passage.objects[0]))
        return passage.objects[0].symbol != "secret"

    def after_send(self, passage: Passage) -> None:
        self.seen.append(("after send", passage.objects[0]))

    def before_receive(self, passage: Passage) -> bool:
        self.seen.append(("before receive", passage.objects[0]))
        return passage.objects[0].symbol != "spam"

    def after_receive(self, passage: Passage) -> None:
        self.seen.append(("after receive", passage.objects[0]))
        raise RuntimeError("is logged, and harms nobody")


async def test_interceptors_see_each_message_and_can_say_no() -> None:
    witness, inbox = Witness(), Inbox()
    async with Topology([memory_url()], registry=allowed(), interceptors=[witness]) as topology:
        await topology.offer("prices", inbox).wait(30)
        publisher = await topology.publisher("prices")
        for symbol in ("secret", "spam", "fine"):
            await publisher.send(Price(symbol, 1.0), metadata={"by": "me"})
        await until(lambda: ("after receive", Price("fine", 1.0)) in witness.seen)
        assert inbox.got == [Price("fine", 1.0)]
        assert inbox.multiparts[0].metadata == {"by": b"me", "trace": b"t-1"}
        counters = topology.metrics.topics[inbox_topic(topology)].counters()
        assert (counters["sent"], counters["send_vetoed"], counters["receive_vetoed"]) == (2, 1, 1)
        steps = [step for step, price in witness.seen if price.symbol == "fine"]
        assert sorted(steps) == ["after receive", "after send", "before receive", "before send"]


async def test_metrics_tell_per_topic_and_origin_what_came() -> None:
    async with Topology([memory_url()], registry=allowed()) as topology:
        inbox = Inbox()
        await topology.offer("prices", inbox).wait(30)
        publisher = await topology.publisher("prices")
        for _ in range(3):
            await publisher.send(Price("a", 1.0))
        await until(lambda: topology.metrics.snapshot()["prices"]["handled"] == 3)
        (origin,) = topology.metrics.topics[inbox_topic(topology)].origins.values()
        assert origin.snapshot()["received"] == 3
        assert 'dragoman_topology_sent_total{topic="prices"} 3' in topology.metrics.prometheus()


def test_each_metric_says_what_it_means_and_no_name_can_spoil_the_text() -> None:
    metrics = Metrics()
    metrics.of(Topic('quo"ted')).origin('x"} 1\nforged\\').came(1, sent_at=0, now=5)
    text = metrics.prometheus()
    kinds = re.findall(r"^# TYPE (\S+) (?:counter|gauge)$", text, re.MULTILINE)
    assert kinds == re.findall(r"^# HELP (\S+) \S.*\.$", text, re.MULTILINE)
    samples = [line for line in text.splitlines() if not line.startswith("# ")]
    label = r'\w+="(?:[^"\\]|\\.)*"'
    assert len(samples) == len(kinds)
    assert all(re.fullmatch(rf"\w+\{{{label}(?:,{label})*\}} \d+", line) for line in samples)


def test_the_origin_that_was_silent_longest_is_forgotten_and_stays_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("dragoman.topology.metrics.MOST_ORIGINS", 2)
    found = TopicMetrics()
    came = [("old", 1), ("silent", 1), ("silent", 3), ("old", 2), ("new", 1)]
    for moment, (name, sequence) in enumerate(came, 1):
        found.origin(name).came(sequence, sent_at=0, now=moment)
    assert set(found.origins) == {"old", "new"}
    assert (found.received, found.missing) == (5, 1)


class Doubting(Interceptor):
    def before_receive(self, passage: Passage) -> bool:
        if passage.objects[0].symbol == "odd":
            raise RuntimeError("cannot say")
        return True


async def test_an_interceptor_that_fails_counts_as_a_failure_and_loses_no_message() -> None:
    broker, inbox = MemoryBroker(memory_url()), Inbox()
    await broker.connect()
    admin = BrokerAdmin(broker, frozenset({"avro"}))
    async with Topology([admin], registry=allowed(), interceptors=[Doubting()]) as topology:
        await topology.offer("prices", inbox).wait(30)
        publisher = await topology.publisher("prices")
        await publisher.send(Price("odd", 1.0))
        await publisher.send(Price("even", 1.0))
        await inbox.has(1)
        assert inbox.got == [Price("even", 1.0)]
        assert len(payloads(broker, "prices.avro.dead")) == 1
        assert topology.metrics.topics[inbox_topic(topology)].failed == 1


async def test_a_sender_whose_clock_is_ahead_has_no_negative_delay() -> None:
    origin = Origin()
    origin.came(1, sent_at=3_600_000, now=5)
    origin.came(2, sent_at=3_600_000, now=12)
    assert (origin.delay, origin.clock_ahead) == (7, 3_599_995)


@pytest.mark.parametrize("overflow", ["oldest", "newest"])
async def test_a_slow_subscriber_of_multicast_has_a_bounded_queue_and_all_loss_is_counted(
    overflow: str,
) -> None:
    go, got = asyncio.Event(), []

    async def slow(price: Price, multipart: Multipart) -> None:
        await go.wait()
        got.append(price.bid)

    async with Topology([LOOPBACK], registry=allowed()) as topology:
        properties = {"queue.size": "10", "queue.overflow": overflow}
        await topology.offer("prices", slow, properties=properties).wait(30)
        publisher = await topology.publisher("prices")
        await linked(topology)
        metrics = topology.metrics.topics[inbox_topic(topology)]
        await until(lambda: metrics.origins)
        for number in range(100):
            await publisher.send(Price("a", float(number)))
        await until(lambda: metrics.overflowed > 0)
        go.set()
        await until(lambda: len(got) + metrics.missing == 100)
        assert metrics.missing > 0
        assert got == sorted(got)


async def test_multicast_announces_a_group_and_never_this_machine_alone() -> None:
    async with Topology([LOOPBACK], registry=allowed()) as topology:
        await topology.publisher("prices")
        properties = topology.own_endpoints()[0].properties()
        assert ipaddress.ip_address(properties["multicast.group"]).is_multicast
        assert not any("127.0.0.1" in value or "localhost" in value for value in properties.values())


async def test_a_message_sent_at_once_reaches_the_subscribers_of_the_same_program() -> None:
    """Also with a serializer that the receiver did not listen to before."""
    async with Topology([memory_url()], registry=allowed()) as topology:
        inbox = Inbox()
        await topology.offer("prices", inbox).wait(30)
        await (await topology.publisher("prices", properties={"serializer": "cbor"})).send(Price("a", 1.0))
        await inbox.has(1)


async def test_an_older_version_of_a_record_is_read_as_the_newer_one() -> None:
    @record(name="Price", namespace="fx")
    class OldPrice:
        symbol: str
        bid: float
        venue: str

    url, inbox = memory_url(), Inbox()
    async with (
        Topology([url], registry=AllowList([Price, OldPrice])) as receiving,
        Topology([url], registry=AllowList([OldPrice])) as sending,
    ):
        await receiving.offer("prices", inbox).wait(30)
        await (await sending.publisher("prices")).send(OldPrice("a", 1.0, "XETR"))
        await inbox.has(1)
        assert inbox.got == [Price("a", 1.0)]


def test_two_types_that_would_share_an_id_are_refused() -> None:
    types = AllowList([Price])
    ((id, schema), *_) = types._schemas.items()
    types._schemas[id] = replace(schema, fingerprint="another")
    with pytest.raises(Conflict, match="share the id"):
        types.allow(Price)


def test_two_classes_of_one_name_are_refused_by_a_subscriber() -> None:
    @record(name="Price", namespace="fx")
    class Another:
        text: str

    async def offer() -> None:
        async with Topology([], registry=allowed()) as topology:
            topology.offer("prices", Inbox(), types=[Price, Another])

    with pytest.raises(ConfigurationError, match=r"Two classes are named fx\.Price"):
        asyncio.run(offer())


async def test_a_large_message_goes_by_multicast_in_pieces() -> None:
    async with Topology([LOOPBACK], registry=allowed()) as topology:
        inbox = Inbox()
        await topology.offer("prices", inbox).wait(30)
        publisher = await topology.publisher("prices")
        await linked(topology)
        await publisher.send(Price("x" * 100_000, 1.0))
        await inbox.has(1)
        assert len(inbox.got[0].symbol) == 100_000
        with pytest.raises(EncodeError, match="are allowed"):
            await publisher.send(Price("x" * 2_000_000, 1.0))


async def test_senders_that_wait_for_the_network_wait_together() -> None:
    out = Outgoing(Network("lo", 1, 65536))
    await asyncio.wait_for(asyncio.gather(*(out.room() for _ in range(3))), 60)
    waiting = asyncio.create_task(out.room())
    await asyncio.sleep(0)
    out.close()
    await asyncio.wait_for(waiting, 60)


async def test_only_announced_senders_are_heard_by_multicast() -> None:
    registry, inbox = allowed(), Inbox()
    async with (
        Topology([LOOPBACK], registry=registry) as receiving,
        Topology([LOOPBACK], registry=registry) as known,
        Topology([LOOPBACK], registry=registry) as stranger,
    ):
        await receiving.offer("prices", inbox).wait(30)
        publisher, other = await known.publisher("prices"), await stranger.publisher("prices")
        receiving.endpoints.add("test", known.own_endpoints()[0])
        await linked(receiving)
        await other.send(Price("stranger", 1.0))
        await publisher.send(Price("known", 1.0))
        await inbox.has(1)
        assert inbox.got == [Price("known", 1.0)]


async def test_senders_with_an_identity_sign_and_others_cannot_speak_for_them() -> None:
    async with Topology([LOOPBACK], registry=allowed(), signer=Signer("host-a", new_key())) as topology:
        inbox = Inbox()
        await topology.offer("prices", inbox).wait(30)
        publisher = await topology.publisher("prices")
        await linked(topology)
        metrics = topology.metrics.of(inbox_topic(topology))
        [endpoint] = [each for each in topology.own_endpoints() if "multicast.sender" in each.more]
        group = Group.of(endpoint.more["multicast.group"], endpoint.more["multicast.port"])
        names = topic_hash(endpoint.topic.path), int(endpoint.more["multicast.sender"], 16)
        out = Outgoing(Network("lo", 1, 65536))
        await publisher.send(Price("a", 1.0))
        await inbox.has(1)
        # The very next numbers, which nothing but the signature tells from the sender's own.
        for number in (2, 3):
            out.put(single(*names, number, 0, b"\0\0forged"), group)
            out.put(beat(*names, number, 0), group)
        await until(lambda: metrics.unsigned == 4)
        out.put(Sealer()(*names, beat(*names, 3, 0)), group)
        await until(lambda: metrics.forged == 1)
        await publisher.send(Price("a", 2.0))
        await publisher.send(Price("x" * 50_000, 3.0))
        await inbox.has(3)
        assert [price.bid for price in inbox.got] == [1.0, 2.0, 3.0]
        assert (metrics.missing, metrics.invalid) == (0, 0)
        assert (metrics.unsigned, metrics.forged) == (4, 1)
        out.close()


class Recorder:
    """A stranger on the network, who keeps what is sent and sends it again."""

    def __init__(self, endpoint: Endpoint) -> None:
        more = endpoint.more
        self._listener = Listener(
            Group.of(more["multicast.group"], more["multicast.port"]), Network("lo", 1, 65536)
        )
        self._topic = topic_hash(endpoint.topic.path)
        self.kept: list[tuple[Datagram, Sealed | None, Source]] = []
        self._listener.add(self._topic, self._take)

    def _take(self, datagram: Datagram, sealed: Sealed | None, source: Source) -> None:
        self.kept.append((datagram, sealed, source))

    @property
    def messages(self) -> int:
        return sum(datagram.kind == DATA for datagram, *_ in self.kept)

    def replay(self, topology: Topology) -> int:
        """How many datagrams."""
        [receiver] = [
            slot.handler.receiver for slot in topology.slots if slot.handler and slot.handler.receiver
        ]
        for datagram, sealed, source in self.kept:
            receiver._take(datagram, sealed, source)
        return len(self.kept)

    def close(self) -> None:
        self._listener.close()


@pytest.mark.parametrize("silence_s", [0.0, 6.0, 3600.0])
async def test_recorded_datagrams_of_a_signed_sender_are_not_taken_again(
    silence_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not by who listens, however long the sender is silent, and not by who begins to listen now."""
    now = ManualStamps(monkeypatch)
    signer = Signer("host-a", new_key())
    async with Topology([LOOPBACK], registry=allowed(), signer=signer) as topology:
        publisher = await topology.publisher("prices")
        [endpoint] = topology.own_endpoints()
        stranger = Recorder(endpoint)
        for number in range(5):
            await publisher.send(Price("old", float(number)))
        await until(lambda: stranger.messages == 5)
        stranger.close()
        now.pass_s(3600)
        # From now on there is a subscriber. It has heard nothing of the sender itself.
        inbox = Inbox()
        offer = topology.offer("prices", inbox)
        await offer.wait(30)
        await linked(topology)
        metrics = topology.metrics.of(inbox_topic(topology))
        stale = stranger.replay(topology)
        await publisher.send(Price("new", 1.0))
        await inbox.has(1)
        now.pass_s(silence_s)
        receiving_since = monotonic() + silence_s
        monkeypatch.setattr(receiver_module, "time", SimpleNamespace(monotonic=lambda: receiving_since))
        stale += stranger.replay(topology)
        await publisher.send(Price("new", 2.0))
        await inbox.has(2)
        assert [(price.symbol, price.bid) for price in inbox.got] == [("new", 1.0), ("new", 2.0)]
        assert (metrics.stale, metrics.forged, metrics.unsigned) == (stale, 0, 0)


class ManualStamps:
    """The stamps of this program, which pass as the test says."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._ns = 10**15
        monkeypatch.setattr("dragoman.topology.stamp.time", SimpleNamespace(monotonic_ns=lambda: self._ns))

    def pass_s(self, seconds: float) -> None:
        self._ns += int(seconds * 10**9)


async def test_what_is_not_a_record_is_refused_with_advice() -> None:
    async with Topology([memory_url()], registry=allowed()) as topology:
        publisher = await topology.publisher("prices")
        with pytest.raises(EncodeError, match="@record"):
            await publisher.send({"symbol": "a"})
        with pytest.raises(ConfigurationError, match="receive"):
            topology.offer("prices", "not a subscriber")  # type: ignore[arg-type]


@pytest.mark.parametrize("serializer", SERIALIZERS)
async def test_a_subscriber_hears_every_serializer_before_it_knows_the_publisher(serializer: str) -> None:
    """No discovery connects the two programs."""
    url, inbox = memory_url(), Inbox()
    async with (
        Topology([url], registry=allowed()) as receiving,
        Topology([url], registry=allowed()) as sending,
    ):
        await receiving.offer("prices", inbox).wait(30)
        publisher = await sending.publisher("prices", properties={"serializer": serializer})
        await publisher.send(Price("a", 1.0))
        await inbox.has(1)


async def test_a_subscriber_that_names_its_serializer_hears_others_when_they_are_announced() -> None:
    broker = MemoryBroker(memory_url())
    await broker.connect()
    inbox = Inbox()
    admin = BrokerAdmin(broker, frozenset(SERIALIZERS))
    async with Topology([admin], registry=allowed()) as topology:
        await topology.offer("prices", inbox, properties={"serializer": "json"}).wait(30)
        assert [name for name in await broker.channels() if name.startswith("prices.")] == ["prices.json"]
        publisher = await topology.publisher("prices", properties={"serializer": "cbor"})
        await linked(topology)
        await publisher.send(Price("a", 1.0))
        await inbox.has(1)
