"""Multicast without identities: what others send in the name of a sender costs it nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, NamedTuple
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.topology import Topology
from dragoman.topology.admin import Wanted
from dragoman.topology.admins.multicast.course import MOST_COURSES, MOST_HELD, NEAR, QUIET, RUN, Source
from dragoman.topology.admins.multicast.datagram import DATA, HEAD, beat, parse, pieces, single, topic_hash
from dragoman.topology.admins.multicast.receiver import MulticastReceiver
from dragoman.topology.admins.multicast.sockets import Group, Network, Outgoing
from dragoman.topology.endpoint import Endpoint
from dragoman.topology.metrics import TopicMetrics
from dragoman.topology.parcel import Parcel
from dragoman.topology.settings import LIBRARY, LIBRARY_ORIGIN, Setting
from dragoman.topology.topic import Role, Topic
from tests.topology.records import Price
from tests.topology.world import LOOPBACK, Inbox, allowed, linked, until

TOPIC = Topic("prices")
NAME = topic_hash(TOPIC.path), 7
SENDER: Source = ("192.0.2.1", 4000)
FORGER: Source = ("192.0.2.66", 4000)


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


class Ears:
    """A real receiver without a network, and all that it delivers."""

    def __init__(self) -> None:
        self.metrics = TopicMetrics()
        self.got: list[bytes] = []

    async def deliver(self, parcel: Parcel, serializer: str, attempts: int = 1, once: bool = False) -> None:
        if self.metrics.origin(parcel.origin).came(parcel.sequence, 0, 0):
            self.got.append(parcel.payload)

    def expects(self) -> bool:
        return True

    def progress(self, origin: str, sequence: int) -> None:
        self.metrics.origin(origin).sequence.reach(sequence)

    def snapshot(self) -> dict[str, int | float]:
        return self.metrics.origins["sender-1"].snapshot()

    @property
    def genuine(self) -> list[bytes]:
        return [each for each in self.got if not each.startswith(b"forged")]


class Said(NamedTuple):
    source: Source
    data: bytes
    later_s: float = 0.0


async def hear(said: Iterable[Said]) -> Ears:
    ears, clock, listener = Ears(), Clock(), mock.Mock()
    wanted = Wanted(
        TOPIC, Role.SUBSCRIBER, {name: Setting(value, LIBRARY_ORIGIN) for name, value in LIBRARY.items()}
    )
    receiver = MulticastReceiver(wanted, ears, 100_000, lambda group: listener, lambda group: None)
    more = {"multicast.group": "239.255.42.1", "multicast.port": "5452", "multicast.sender": "7"}
    try:
        await receiver.connect(Endpoint("sender", 1, Role.PUBLISHER, TOPIC, "multicast", "avro", more))
        for each in said:
            clock.now += each.later_s
            with mock.patch("dragoman.topology.admins.multicast.receiver.time", clock):
                for datagram in parse(each.data):
                    receiver._take(datagram, None, each.source)
            while receiver._queue:
                await asyncio.sleep(0)
        [link] = receiver._links.values()
        assert len(link.speaker._believed) <= MOST_COURSES  # type: ignore[union-attr]
        assert len(link.speaker._doubted) <= MOST_COURSES  # type: ignore[union-attr]
        assert all(len(each.held) <= MOST_HELD for each in link.speaker._doubted.values())  # type: ignore[union-attr]
    finally:
        await receiver.close()
    return ears


def message(number: int, text: bytes) -> bytes:
    return single(*NAME, number, 0, b"\0\0" + text)


START = 100_000
OFFSETS = (1, 2, 3, 10, NEAR, NEAR + 1, 60_000, 120_000, -1, -2, -NEAR, -60_000, 2**63)
offsets = st.sampled_from(OFFSETS) | st.integers(-START, 2**40)


@st.composite
def forgeries(draw: st.DrawFn, number: int, sources: st.SearchStrategy[Source]) -> list[Said]:
    """Near a number, or far from it: alone, or continuing each other."""
    at = max(0, number + draw(offsets))
    count = draw(st.integers(1, 5))
    kinds = [
        lambda n: beat(*NAME, n, 0),
        lambda n: message(n, b"forged"),
        lambda n: HEAD.pack(b"dM", 1, DATA, *NAME, n, 0, 90, 0, 3) + b"forged",
    ]
    kind, source = draw(st.sampled_from(kinds)), draw(sources)
    return [Said(source, kind(at + step)) for step in range(count)]


class Talk(NamedTuple):
    said: list[Said]
    sent: list[bytes]
    lost: int


@st.composite
def talks(draw: st.DrawFn, sources: st.SearchStrategy[Source], first: int, quiet_s: float = 2.0) -> Talk:
    """What a sender says, some of which is lost, and what others say in its name after its ``first``."""
    said: list[Said] = []
    sent, number, lost = [], START, 0
    for turn in range(draw(st.integers(first + RUN, 12))):
        missed = draw(st.sampled_from([0, 0, 0, 1, 50])) if turn else 0
        number, lost = number + 1 + missed, lost + missed
        text = b"%d " % number + b"x" * draw(st.sampled_from([0, 200]))
        parts = list(pieces(*NAME, number, 0, b"\0\0" + text, HEAD.size + 100))
        wait = draw(st.floats(0, quiet_s))
        for index, part in enumerate(parts):
            if turn >= first and draw(st.booleans()):
                said += draw(forgeries(number, sources))
            said.append(Said(SENDER, part, 0.0 if index else wait))
        sent.append(text)
        if draw(st.booleans()):
            said.append(Said(SENDER, beat(*NAME, number, 0)))
    return Talk(said, sent, lost)


others = st.tuples(st.sampled_from(["192.0.2.66", "192.0.2.67"]), st.integers(4000, 4010))


@given(talks(others, first=2))
def test_nothing_from_elsewhere_changes_what_a_sender_has_begun(talk: Talk) -> None:
    ears = asyncio.run(hear(talk.said))
    assert ears.genuine == talk.sent
    seen = ears.snapshot()
    assert (seen["received"], seen["missing"], seen["duplicates"]) == (len(talk.sent), talk.lost, 0)


@given(talks(others.map(lambda source: (FORGER[0], source[1])), first=0))
def test_no_message_of_a_sender_is_lost_to_a_host_that_speaks_first(talk: Talk) -> None:
    ears = asyncio.run(hear(talk.said))
    assert ears.genuine == talk.sent


far = st.integers(0, 2**64 - 1).filter(lambda number: abs(number - START) > 3 * NEAR)


@given(st.lists(st.booleans() | far, max_size=40))
def test_numbers_from_the_senders_own_address_that_continue_nothing_change_nothing(
    heard: list[bool | int],
) -> None:
    """A forger who can send from the sender's address has to continue its own numbers."""
    said = [Said(SENDER, message(START + number, b"")) for number in range(2)]
    number, previous = START + 1, -NEAR
    for each in heard:
        if isinstance(each, bool):
            number += 1
            said.append(Said(SENDER, message(number, b""), QUIET / 2))
        elif abs(each - previous) > NEAR:
            previous = each
            said.append(Said(SENDER, message(each, b"forged")))
    ears = asyncio.run(hear(said))
    assert ears.got == [b""] * (number - START + 1)
    seen = ears.snapshot()
    assert (seen["missing"], seen["duplicates"]) == (0, 0)


@pytest.mark.parametrize("offset", [NEAR + 1, 10**9, -NEAR - 1])
def test_a_second_course_from_the_senders_own_address_costs_the_sender_nothing(offset: int) -> None:
    said, sent = [], []
    for number in range(START, START + 20):
        sent.append(b"%d" % number)
        said.append(Said(SENDER, message(number, sent[-1])))
        if number > START:
            said.append(Said(SENDER, message(number + offset, b"forged")))
    ears = asyncio.run(hear(said))
    assert ears.genuine == sent
    seen = ears.snapshot()
    assert (seen["missing"], seen["duplicates"]) == (0, 0)


def test_three_forgeries_at_once_from_the_senders_own_address_lose_none_of_its_messages() -> None:
    forged = b"".join(message(START + 5000 + step, b"forged") for step in range(3))
    said, sent = [], []
    for number in range(START, START + 30):
        if number % 10 == 5:
            said.append(Said(SENDER, forged))
        sent.append(b"%d" % number)
        said.append(Said(SENDER, message(number, sent[-1])))
    assert asyncio.run(hear(said)).genuine == sent


@pytest.mark.parametrize("pause_s", [0.0, QUIET + 1, 3600.0])
@pytest.mark.parametrize("lost", [1, NEAR, NEAR + 1, 10**6])
def test_a_sender_goes_on_after_any_loss_and_all_of_it_is_counted(lost: int, pause_s: float) -> None:
    numbers = [*range(START, START + 5), *range(START + 5 + lost, START + 10 + lost)]
    said = [Said(SENDER, message(n, b"%d" % n), pause_s if n == START + 5 + lost else 0.0) for n in numbers]
    ears = asyncio.run(hear(said))
    assert ears.got == [b"%d" % number for number in numbers]
    assert ears.snapshot()["missing"] == lost
    assert ears.metrics.forged == 0


@pytest.mark.parametrize("pause_s", [0.0, QUIET + 1])
def test_a_sender_whose_address_changes_loses_nothing(pause_s: float) -> None:
    numbers = range(START, START + 10)
    said = [
        Said(
            SENDER if n < START + 5 else ("198.51.100.1", 9),
            message(n, b"%d" % n),
            pause_s * (n == START + 5),
        )
        for n in numbers
    ]
    ears = asyncio.run(hear(said))
    assert ears.got == [b"%d" % number for number in numbers]
    assert ears.metrics.missing == 0


def test_a_sender_in_doubt_that_speaks_seldom_is_believed_by_its_beats() -> None:
    said = [Said(FORGER, message(START + step, b"forged")) for step in range(2)]
    said += [
        Said(SENDER, message(START, b"only one")),
        *(Said(SENDER, beat(*NAME, START, 0)) for _ in range(2)),
    ]
    assert asyncio.run(hear(said)).genuine == [b"only one"]


def test_what_was_in_doubt_counts_as_forged_once_nothing_has_continued_it() -> None:
    said = [Said(SENDER, message(START + step, b"")) for step in range(3)]
    said += [Said(FORGER, message(START + 60_000 * step, b"forged")) for step in range(1, 4)]
    said += [Said(FORGER, message(START + 180_000, b"forged"))] * 5
    ears = asyncio.run(hear(said))
    assert ears.metrics.forged == 2
    said += [Said(SENDER, beat(*NAME, START + 2, 0), QUIET / 2)] * 3
    ears = asyncio.run(hear(said))
    assert ears.metrics.forged == 8
    assert ears.got == [b""] * 3


def test_a_first_datagram_that_was_forged_leaves_no_trace() -> None:
    said = [Said(FORGER, message(2**63, b"forged"))]
    said += [Said(SENDER, message(START + step, b"%d" % step), QUIET / 2) for step in range(5)]
    ears = asyncio.run(hear(said))
    assert ears.genuine == [b"0", b"1", b"2", b"3", b"4"]
    assert ears.metrics.forged == 1
    assert list(ears.metrics.origins) == ["sender-1"]
    assert ears.metrics.missing == 0


@contextmanager
def outgoing() -> Iterator[Outgoing]:
    out = Outgoing(Network("lo", 1, 65536))
    try:
        yield out
    finally:
        out.close()


@pytest.mark.parametrize(
    "steps", [[60_000], [60_000, 120_000], [-60_000], [1], [5, 6, 7], [1, 2, 3, 4, 5, 6], [2**62]], ids=str
)
@pytest.mark.parametrize("kind", ["message", "beat", "piece"])
async def test_datagrams_forged_on_the_network_cost_a_running_sender_nothing(
    kind: str, steps: list[int]
) -> None:
    async with Topology([LOOPBACK], registry=allowed()) as topology:
        inbox = Inbox()
        await topology.offer("prices", inbox).wait(30)
        publisher = await topology.publisher("prices")
        await linked(topology)
        metrics = topology.metrics.of(topology.slots[0].topic)
        [endpoint] = [each for each in topology.own_endpoints() if "multicast.sender" in each.more]
        group = Group.of(endpoint.more["multicast.group"], endpoint.more["multicast.port"])
        names = topic_hash(endpoint.topic.path), int(endpoint.more["multicast.sender"], 16)
        make: dict[str, Any] = {
            "message": lambda n: single(*names, n, 0, b"\0\0forged"),
            "beat": lambda n: beat(*names, n, 0),
            "piece": lambda n: HEAD.pack(b"dM", 1, DATA, *names, n, 0, 100, 0, 2) + b"x",
        }
        for number in range(10):
            await publisher.send(Price("a", float(number)))
        await inbox.has(10)
        heard = listening_to(topology)
        with outgoing() as out:
            for step in steps:
                out.put(make[kind](max(0, 10 + step)), group)
            await until(lambda: sum(source_count(heard)) >= len(steps))
        for number in range(10, 30):
            await publisher.send(Price("a", float(number)))
            await inbox.has(number + 1)
        await publisher.send(Price("x" * 50_000, 30.0))
        await inbox.has(31)
        assert [price.bid for price in inbox.got] == [float(number) for number in range(31)]
        own = metrics.origins[endpoint.id]
        assert (own.sequence.received, own.sequence.missing, own.sequence.duplicates) == (31, 0, 0)


def listening_to(topology: Topology) -> SimpleNamespace:
    [receiver] = [slot.handler.receiver for slot in topology.slots if slot.handler and slot.handler.receiver]
    [link] = receiver._links.values()  # type: ignore[attr-defined]
    return SimpleNamespace(courses=link.speaker, metrics=receiver._inlet.metrics)  # type: ignore[attr-defined]


def source_count(heard: SimpleNamespace) -> Iterator[int]:
    """Datagrams from other sources than the first."""
    yield heard.metrics.forged
    own = next(iter(heard.courses._believed.values()))
    for each in (*heard.courses._believed.values(), *heard.courses._doubted.values()):
        if each is not own:
            yield each.count
