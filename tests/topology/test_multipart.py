"""Groups of objects in one message: what is refused, what is kept, what arrives."""

from __future__ import annotations

import asyncio
import re

import pytest

from dragoman.core.errors import MultipartError, PublisherUnavailable
from dragoman.topology import Flag, Publisher, Topology
from dragoman.topology.grouping import Groups, Limits
from tests.topology.records import Note, Price, Quote
from tests.topology.world import Inbox, allowed, memory_url

FIRST, PART, LAST = Flag.FIRST, Flag.PART, Flag.LAST


@pytest.fixture
async def pair():
    """A publisher, and the inbox of its subscriber."""
    inbox = Inbox()
    async with Topology([memory_url()], registry=allowed()) as topology:
        await topology.offer("prices", inbox).wait(30)
        yield await topology.publisher("prices"), inbox


async def test_a_group_arrives_as_one_message_with_its_objects_by_class(
    pair: tuple[Publisher, Inbox],
) -> None:
    publisher, inbox = pair
    await publisher.send_multipart(Price("a", 1.0), FIRST)
    await publisher.send_multipart(Quote("a", 7, b"\xff"), PART)
    await publisher.send_multipart(Note("third"), LAST)
    await inbox.has(1)
    multipart = inbox.multiparts[0]
    assert inbox.got == [Price("a", 1.0)]
    assert multipart.get(Quote) == Quote("a", 7, b"\xff")
    assert multipart.get(Note) == Note("third")
    assert multipart.get(Price) is inbox.got[0]
    assert multipart.types == ("fx.Price", "fx.Quote", "fx.Note")
    assert multipart.get("fx.Note") == {"text": "third"}


async def test_a_class_that_was_not_sent_is_none(pair: tuple[Publisher, Inbox]) -> None:
    publisher, inbox = pair
    await publisher.send(Price("a", 1.0))
    await inbox.has(1)
    assert inbox.multiparts[0].get(Note) is None


@pytest.mark.parametrize("flags", [FIRST | LAST, FIRST | PART | LAST])
async def test_first_and_last_in_one_send_the_object_once(pair: tuple[Publisher, Inbox], flags: int) -> None:
    publisher, inbox = pair
    await publisher.send_multipart(Price("a", 1.0), flags)
    await publisher.send(Price("end", 0.0))
    await inbox.has(2)
    assert [price.symbol for price in inbox.got] == ["a", "end"]
    assert len(inbox.multiparts[0]) == 1


async def test_two_first_objects_are_refused_and_the_group_stays_open(pair: tuple[Publisher, Inbox]) -> None:
    publisher, inbox = pair
    await publisher.send_multipart(Price("a", 1.0), FIRST)
    with pytest.raises(MultipartError) as refused:
        await publisher.send_multipart(Note("x"), FIRST)
    assert refused.value.code == "topology.multipart.two-first"
    await publisher.send_multipart(Note("end"), LAST)
    await inbox.has(1)
    assert inbox.multiparts[0].get(Note) == Note("end")


@pytest.mark.parametrize("flags", [PART, LAST, PART | LAST])
async def test_a_group_without_a_first_object_is_refused(pair: tuple[Publisher, Inbox], flags: int) -> None:
    with pytest.raises(MultipartError) as refused:
        await pair[0].send_multipart(Price("a", 1.0), flags)
    assert refused.value.code == "topology.multipart.no-first"


@pytest.mark.parametrize("flags", [0, 8, 9, -1])
async def test_flags_that_mean_nothing_are_refused_not_dropped(
    pair: tuple[Publisher, Inbox], flags: int
) -> None:
    publisher, inbox = pair
    await publisher.send_multipart(Price("a", 1.0), FIRST)
    with pytest.raises(MultipartError) as refused:
        await publisher.send_multipart(Note("x"), flags)
    assert refused.value.code == "topology.multipart.flags"
    await publisher.send_multipart(Note("end"), LAST)
    await inbox.has(1)
    assert inbox.multiparts[0].types == ("fx.Price", "fx.Note")


async def test_two_objects_of_one_class_are_refused_at_send(pair: tuple[Publisher, Inbox]) -> None:
    publisher, inbox = pair
    await publisher.send_multipart(Price("a", 1.0), FIRST)
    with pytest.raises(MultipartError) as refused:
        await publisher.send_multipart(Price("b", 2.0), LAST)
    assert refused.value.code == "topology.multipart.same-class"
    await publisher.send_multipart(Note("end"), LAST)
    await inbox.has(1)
    assert inbox.got == [Price("a", 1.0)]


async def test_tasks_do_not_mix_their_groups(pair: tuple[Publisher, Inbox]) -> None:
    publisher, inbox = pair
    turn = asyncio.Barrier(2)

    async def group(symbol: str) -> None:
        await publisher.send_multipart(Price(symbol, 1.0), FIRST)
        await turn.wait()
        await publisher.send_multipart(Note(symbol), LAST)

    await asyncio.gather(group("a"), group("b"))
    await inbox.has(2)
    for price, multipart in zip(inbox.got, inbox.multiparts, strict=True):
        assert multipart.get(Note) == Note(price.symbol)


async def test_an_aborted_group_is_forgotten(pair: tuple[Publisher, Inbox]) -> None:
    publisher, inbox = pair
    await publisher.send_multipart(Price("lost", 1.0), FIRST)
    assert publisher.abort()
    assert not publisher.abort()
    await publisher.send_multipart(Price("kept", 1.0), FIRST | LAST)
    await inbox.has(1)
    assert inbox.got == [Price("kept", 1.0)]


async def test_an_object_is_sent_as_it_was_when_it_was_given(pair: tuple[Publisher, Inbox]) -> None:
    publisher, inbox = pair
    price = Price("before", 1.0)
    await publisher.send_multipart(price, FIRST)
    price.symbol = "after"
    await publisher.send_multipart(Note(""), LAST)
    await inbox.has(1)
    assert inbox.got == [Price("before", 1.0)]


async def test_a_group_that_takes_too_long_is_given_up() -> None:
    now = [0.0]
    groups = Groups("prices", Limits(timeout=5.0), lambda: now[0])
    groups.check(FIRST, Price)
    groups.add(FIRST, Price("a", 1.0), b"x")
    now[0] = 6.0
    with pytest.raises(MultipartError) as refused:
        groups.check(LAST, Note)
    assert refused.value.code == "topology.multipart.timeout"
    groups.check(FIRST, Price)


@pytest.mark.parametrize("limits", [Limits(objects=1), Limits(bytes=3)])
async def test_a_group_has_a_largest_size_and_stays_open_when_it_is_reached(limits: Limits) -> None:
    groups = Groups("prices", limits, lambda: 0.0)
    groups.add(FIRST, Price("a", 1.0), b"12")
    with pytest.raises(MultipartError) as refused:
        groups.add(LAST, Note(""), b"34")
    assert refused.value.code == "topology.multipart.too-large"
    groups.check(LAST, Note)


async def test_a_publisher_without_a_transport_says_what_to_do() -> None:
    async with Topology([], registry=allowed()) as topology:
        request = topology.request("prices")
        assert request.publisher is None
        with pytest.raises(PublisherUnavailable, match=re.escape("There is no admin.")):
            await request.wait(0.2)


@pytest.mark.parametrize("flags", [0, 8, -1, None, "FIRST", 1.0])
async def test_what_is_no_combination_of_flags_is_refused(
    pair: tuple[Publisher, Inbox], flags: object
) -> None:
    with pytest.raises(MultipartError) as refused:
        await pair[0].send_multipart(Price("a", 1.0), flags)
    assert refused.value.code == "topology.multipart.flags"
