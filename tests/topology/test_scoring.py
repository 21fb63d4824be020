"""Which admin gets a topic: counted properties, weights, and the configured order."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from dragoman.core.errors import PublisherUnavailable
from dragoman.topology import Role, Topic, Topology
from dragoman.topology.admin import Inlet, TopicReceiver, TopicSender, Wanted
from dragoman.topology.admins.broker import BrokerAdmin
from dragoman.topology.admins.multicast.admin import MulticastAdmin
from dragoman.topology.configuration import Configuration
from dragoman.topology.explaining import explain
from dragoman.topology.scoring import Reason, Score
from tests.topology.world import Inbox, allowed, until

SERIALIZERS = frozenset({"avro", "json"})
EMBEDDED = BrokerAdmin("embedded://unused", SERIALIZERS)
MEMORY = BrokerAdmin("memory://unused", SERIALIZERS)
MULTICAST = MulticastAdmin("multicast://", SERIALIZERS)


def points(admin: BrokerAdmin | MulticastAdmin, given: Mapping[str, str], scope: str | None = None) -> int:
    topic = Topic("prices", scope)
    configuration = Configuration((), lambda: frozenset({"embedded", "memory", "multicast"}))
    settings = configuration.resolve(
        configuration.said(topic, Role.PUBLISHER, given), Role.PUBLISHER, admin.type
    )
    return admin.score(Wanted(topic, Role.PUBLISHER, settings)).points


@pytest.mark.parametrize("admin", [EMBEDDED, MULTICAST])
@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, 1),
        ({"serializer": "json"}, 2),
        ({"serializer": "json", "queue.size": "5"}, 3),
        ({"serializer": "thrift"}, 0),
        ({"pubsub.config": "other"}, 0),
        ({"pubsub.admin.config": "other", "qos": "control"}, 0),
    ],
)
def test_known_properties_count_one_each(
    admin: BrokerAdmin | MulticastAdmin, given: Mapping[str, str], expected: int
) -> None:
    assert points(admin, given) == expected


def test_a_scope_counts_one() -> None:
    assert points(EMBEDDED, {}, scope="fx") == 2


def test_own_properties_count_two_and_those_of_others_nothing() -> None:
    given = {"embedded.partitions": "2", "embedded.retention": "60"}
    assert points(EMBEDDED, given) == 5
    assert points(MULTICAST, given) == 1


def test_the_admin_that_is_asked_for_gets_a_hundred() -> None:
    assert points(EMBEDDED, {"pubsub.config": "embedded"}) == 101
    assert points(MULTICAST, {"pubsub.admin.config": "multicast"}) == 101


def test_intents_count_twenty_five_where_they_can_be_met() -> None:
    given = {"pubsub.intent.reliable": "reliable", "pubsub.intent.latejoiner": "late-joiner-support"}
    assert points(EMBEDDED, given) == 51
    assert points(MEMORY, given) == 26, "memory does not survive, but keeps its history"
    assert points(MULTICAST, given) == 1


@pytest.mark.parametrize(("quality", "broker", "multicast"), [("sample", 31, 71), ("control", 71, 31)])
def test_quality_of_service_weighs_as_it_always_did(quality: str, broker: int, multicast: int) -> None:
    assert points(EMBEDDED, {"qos": quality}) == broker
    assert points(MULTICAST, {"qos": quality}) == multicast


class Scored:
    """An admin with a fixed score, whose transports do nothing."""

    def __init__(self, type: str, points: int) -> None:
        self.type = type
        self.trouble: str | None = None
        self._points = points

    async def start(self, changed: Callable[[], None]) -> None: ...

    def score(self, wanted: Wanted) -> Score:
        return Score(self._points, (Reason(self._points, "fixed"),))

    async def sender(self, wanted: Wanted) -> TopicSender:
        return Silent()

    async def receiver(self, wanted: Wanted, inlet: Inlet) -> TopicReceiver:
        return Silent()

    async def close(self) -> None: ...


class Silent:
    properties: Mapping[str, str] = {}
    channel = "x"

    async def send(self, parcel: object) -> None: ...

    async def connect(self, publisher: object) -> None: ...

    async def disconnect(self, publisher: object) -> None: ...

    async def close(self) -> None: ...


@pytest.mark.parametrize("order", [("low", "high", "none"), ("none", "high", "low")])
async def test_the_highest_positive_score_wins_in_any_order(order: tuple[str, ...]) -> None:
    admins = {"low": Scored("low", 3), "high": Scored("high", 9), "none": Scored("none", 0)}
    async with Topology([admins[name] for name in order], registry=allowed()) as topology:
        request, offer = topology.request("prices"), topology.offer("prices", Inbox())
        await request.wait(30)
        await offer.wait(30)
        assert (request.admin, offer.admin) == ("high", "high")


async def test_between_equal_scores_the_configured_order_decides() -> None:
    async with Topology([Scored("b", 5), Scored("a", 5)], registry=allowed()) as topology:
        request = topology.request("prices")
        await request.wait(30)
        assert request.admin == "b"


@pytest.mark.parametrize("score", [0, -1])
async def test_an_admin_without_a_positive_score_gets_neither_publishers_nor_subscribers(score: int) -> None:
    async with Topology([Scored("no", score)], registry=allowed()) as topology:
        request, offer = topology.request("prices"), topology.offer("prices", Inbox())
        await until(lambda: all("no:" in user.why for slot in topology.slots for user in slot.users))
        assert not request.available
        assert not offer.available
        with pytest.raises(PublisherUnavailable):
            await request.wait(0.01)


async def test_explain_shows_each_score_and_why() -> None:
    async with Topology([Scored("low", 3), on_loopback()], registry=allowed()) as topology:
        found = explain(topology, Topic("prices"), Role.PUBLISHER, {"qos": "sample"})
    assert found.chosen is not None
    assert found.chosen.admin == "multicast"
    assert [(each.admin, each.score) for each in found.verdicts] == [("multicast", 71), ("low", 3)]
    assert any(reason.points == 70 and "sample" in reason.why for reason in found.chosen.reasons)


def on_loopback() -> MulticastAdmin:
    return MulticastAdmin("multicast://?interface=lo", SERIALIZERS)
