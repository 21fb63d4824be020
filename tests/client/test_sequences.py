"""Message sequences: large objects in parts, handled as a whole or put aside with the reason."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman import Client, EndpointOptions, Message, RetryOptions, endpoint, record
from dragoman.adapters.memory import MemoryBroker
from dragoman.client import consumer as loop
from dragoman.client import headers
from dragoman.client.contracts import Contracts
from dragoman.client.dead_letters import DeadLetters
from dragoman.client.delivery import Delivery, Route
from dragoman.client.flight import Flight
from dragoman.client.lane import Intake
from dragoman.client.later import waiting, when_due
from dragoman.client.metrics import ChannelMetrics
from dragoman.client.options import ClientOptions
from dragoman.client.outcome import DONE, Outcome
from dragoman.client.pausing import Pauses
from dragoman.client.producer import Producer
from dragoman.client.replay import replay as send_again
from dragoman.client.role import Sending
from dragoman.client.sequence.assembling import Assembler
from dragoman.client.sequence.options import SequenceOptions
from dragoman.client.sequence.parts import cut, join, place_of
from dragoman.core.backoff import Backoff
from dragoman.core.channel import Channel
from dragoman.core.errors import BrokerUnavailable, ConfigurationError, EncodeError, FrameError, MessageError
from dragoman.core.registry import Registry
from tests.client.conftest import payloads
from tests.client.scripted import ScriptedBroker, ScriptedReceiver, numbered
from tests.client.waiting import until


@record
class Picture:
    name: str
    pixels: bytes


PICTURE = Picture("p", random.Random(1).randbytes(10_000))


class Gallery:
    """An endpoint that keeps what it was given."""

    def __init__(self, options: SequenceOptions | None = None, fails: bool = False) -> None:
        self.seen: list[Picture] = []
        strategy = EndpointOptions(
            retry=RetryOptions(attempts=1), sequence=options or SequenceOptions(timeout=3600)
        )

        @endpoint("pictures", options=strategy)
        async def on_picture(picture: Picture) -> None:
            self.seen.append(picture)
            if fails:
                raise ValueError("The picture is ugly.")

        self.endpoint = on_picture


async def parts_of(registry: Registry, size: int = 1000) -> list[Message]:
    bound = await Contracts(registry, ClientOptions()).bind("pictures", Picture)
    return cut(Message("pictures", bound.encode(PICTURE), b"k"), size)


@given(payload=st.binary(max_size=200), size=st.integers(1, 50), key=st.none() | st.binary(max_size=5))
@settings(deadline=None, max_examples=60)
def test_what_is_cut_is_whole_again(payload: bytes, size: int, key: bytes | None) -> None:
    message = Message("c", payload, key, (("a", b"1"),))
    parts = cut(message, size)
    places = [place_of(part) for part in parts]
    assert [place and (place.position, place.size) for place in places] == [
        (number, len(parts)) for number in range(len(parts))
    ]
    assert all(len(part.payload or b"") <= size for part in parts)
    whole = join(parts)
    assert (whole.payload, whole.headers) == (payload, (("a", b"1"),))
    assert whole.key == (key or None)


def test_parts_of_no_bytes_are_refused() -> None:
    with pytest.raises(ConfigurationError):
        cut(Message("c", b"x"), 0)


@pytest.mark.parametrize(("position", "size"), [(b"2", b"2"), (b"x", b"2"), (b"", b"1"), (b"0", b"9" * 30)])
def test_a_part_without_a_place_is_refused(position: bytes, size: bytes) -> None:
    marks = (headers.SEQUENCE_ID, b"1"), (headers.SEQUENCE_POSITION, position), (headers.SEQUENCE_SIZE, size)
    with pytest.raises(FrameError, match="position and size"):
        place_of(Message("c", b"", headers=marks))


async def test_a_large_object_is_handled_as_a_whole(memory: MemoryBroker, registry: Registry) -> None:
    gallery = Gallery()
    async with Client(memory, registry, [gallery.endpoint]) as client:
        positions = await client.publish_in_parts("pictures", PICTURE, part_size=512)
        await until(lambda: gallery.seen)
        await until(lambda: _done(memory))
        assert client.metrics.of("pictures").handled == 1
    assert len(positions) == 20
    assert gallery.seen == [PICTURE]


async def _done(memory: MemoryBroker) -> bool:
    return not any(lag.behind for lag in await memory.lag("pictures"))


async def test_a_sequence_may_have_more_parts_than_the_window_has_room(
    memory: MemoryBroker, registry: Registry
) -> None:
    gallery = Gallery()
    async with Client(memory, registry, [gallery.endpoint], options=ClientOptions(window=2)) as client:
        await client.publish_in_parts("pictures", PICTURE, part_size=512)
        await until(lambda: gallery.seen)
        async with client.poll("pictures", Picture, group="polling", limit=1) as pictures:
            assert [picture async for picture in pictures] == [PICTURE]
        await until(lambda: _done(memory))
    assert gallery.seen == [PICTURE]


async def test_parts_out_of_order_and_twice_make_one_whole(memory: MemoryBroker, registry: Registry) -> None:
    parts = await parts_of(registry)
    shuffled = parts + parts[:4]
    random.Random(2).shuffle(shuffled)
    gallery = Gallery()
    async with Client(memory, registry, [gallery.endpoint]):
        await memory.publish(shuffled)
        await until(lambda: gallery.seen)
        await until(lambda: _done(memory))
    assert gallery.seen == [PICTURE]


async def test_parts_stay_unacknowledged_until_the_whole_is_handled(
    memory: MemoryBroker, registry: Registry
) -> None:
    parts = await parts_of(registry)
    first, second = Gallery(), Gallery()
    async with Client(memory, registry, [first.endpoint]) as client:
        await memory.publish(parts[:-1])
        await until(lambda: client.metrics.of("pictures").received == len(parts) - 1)
        assert sum(lag.behind for lag in await memory.lag("pictures")) == len(parts) - 1
    async with Client(memory, registry, [second.endpoint]):
        await memory.publish(parts[-1:])
        await until(lambda: second.seen)
        await until(lambda: _done(memory))
    assert first.seen == []
    assert second.seen == [PICTURE]


async def test_a_part_that_was_given_back_stays_unacknowledged_when_it_comes_again(
    memory: MemoryBroker, registry: Registry
) -> None:
    """The whole before it fails: all in flight behind the first part of that come again."""
    await memory.create(Channel("pictures", 1))
    failing, unfinished = await parts_of(registry, 6000), await parts_of(registry, 6000)
    calls: list[str] = []
    options = EndpointOptions(retry=RetryOptions(attempts=1, delay=0.0), dead_letter=None)

    @endpoint("pictures", options=options)
    async def on_picture(picture: Picture) -> None:
        calls.append(picture.name)
        if len(calls) == 1:
            raise ValueError

    async with Client(memory, registry, [on_picture]) as client:
        await memory.publish([failing[0], unfinished[0], failing[1]])
        await until(lambda: calls == ["p", "p"])
        await client.publish("pictures", Picture("small", b""))
        await until(lambda: calls == ["p", "p", "small"])
    [lag] = await memory.lag("pictures")
    assert lag.committed == 1
    async with Client(memory, registry, [on_picture]):
        await memory.publish([unfinished[1]])
        await until(lambda: "p" in calls[3:])


async def test_a_part_is_held_that_another_receiver_has_numbered_anew(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "REST", Backoff(0.001, 0.001))
    broker = ScriptedBroker()
    await broker.connect()
    one, two = await parts_of(registry, 6000)
    gallery = Gallery()
    async with Client(broker, registry, [gallery.endpoint]) as client:
        broker.receiver.deliver(one._replace(partition=0, offset=7))
        await until(lambda: client.metrics.of("pictures").received == 1)
        for _ in range(loop.PATIENCE):
            broker.receiver.fail(BrokerUnavailable("Gone."))
        await until(lambda: len(broker.receivers) == 2)
        broker.receiver.deliver(one._replace(partition=0, offset=0), numbered(1, "pictures", start=1)[0])
        await until(lambda: client.metrics.of("pictures").invalid == 1)
        await asyncio.sleep(0.2)
        assert broker.receiver.offsets == []
        broker.receiver.deliver(two._replace(partition=0, offset=2))
        await until(lambda: broker.receiver.offsets == [2])
    await broker.close()
    assert gallery.seen == [PICTURE]


async def test_two_sequences_and_single_messages_may_be_mixed(
    memory: MemoryBroker, registry: Registry
) -> None:
    one, two = await parts_of(registry), await parts_of(registry, 700)
    small = Picture("small", b"")
    gallery = Gallery()
    async with Client(memory, registry, [gallery.endpoint]) as client:
        await memory.publish([*one[:3], *two[:5]])
        await client.publish("pictures", small, key=b"k")
        await memory.publish([*two[5:], *one[3:]])
        await until(lambda: len(gallery.seen) == 3)
    assert gallery.seen == [small, PICTURE, PICTURE]


async def test_a_gap_sends_the_parts_to_the_dead_letters(memory: MemoryBroker, registry: Registry) -> None:
    parts = await parts_of(registry)
    gallery = Gallery(SequenceOptions(timeout=0.05))
    async with Client(memory, registry, [gallery.endpoint]) as client:
        await memory.publish(parts[:3] + parts[4:])
        await until(lambda: client.metrics.of("pictures").dead == len(parts) - 1)
        await memory.publish(parts[3:4])  # It comes too late, and joins the others.
        await until(lambda: client.metrics.of("pictures").dead == len(parts))
        await until(lambda: _done(memory))
    letters = payloads(memory, "pictures.dead")
    assert [letter.payload for letter in letters] == [
        part.payload for part in parts[:3] + parts[4:] + parts[3:4]
    ]
    assert {letter.header(headers.ERROR_CODE) for letter in letters} == {b"message.sequence-gap"}
    assert b"1 of its" in letters[0].header(headers.ERROR_MESSAGE)
    assert b"in time: 3." in letters[0].header(headers.ERROR_MESSAGE)
    assert gallery.seen == []


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (SequenceOptions(parts=5, timeout=3600), b"5 are allowed"),
        (SequenceOptions(bytes=4000, timeout=3600), b"larger than 4000 bytes"),
    ],
)
async def test_a_sequence_beyond_the_limits_goes_to_the_dead_letters(
    memory: MemoryBroker, registry: Registry, options: SequenceOptions, reason: bytes
) -> None:
    parts = await parts_of(registry)
    gallery = Gallery(options)
    async with Client(memory, registry, [gallery.endpoint]) as client:
        await memory.publish(parts)
        await until(lambda: client.metrics.of("pictures").dead == len(parts))
        await until(lambda: _done(memory))
    assert all(reason in each.header(headers.ERROR_MESSAGE) for each in payloads(memory, "pictures.dead"))


async def test_a_whole_that_cannot_be_handled_is_buried_in_its_parts_and_can_come_again(
    memory: MemoryBroker, registry: Registry
) -> None:
    parts = await parts_of(registry)
    async with Client(memory, registry, [Gallery(fails=True).endpoint]) as client:
        await memory.publish(parts)
        await until(lambda: client.metrics.of("pictures").dead)
    letters = payloads(memory, "pictures.dead")
    assert [letter.payload for letter in letters] == [part.payload for part in parts]
    gallery = Gallery()
    async with Client(memory, registry, [gallery.endpoint]):
        await memory.publish([letter._replace(channel="pictures") for letter in letters])
        await until(lambda: gallery.seen)
    assert gallery.seen == [PICTURE]


@pytest.mark.parametrize("key", [None, "k"])
async def test_parts_that_are_sent_back_are_put_together_by_who_has_seen_them_before(
    memory: MemoryBroker, registry: Registry, key: str | None
) -> None:
    gallery = Gallery(fails=True)
    async with Client(memory, registry, [gallery.endpoint]) as client:
        await client.publish_in_parts("pictures", PICTURE, key=key, part_size=1000)
        await until(lambda: client.metrics.of("pictures").dead)
        letters = DeadLetters(memory, "pictures.dead")
        await letters.replay(await letters.find())
        await until(lambda: len(gallery.seen) == 2)
        await until(lambda: client.metrics.of("pictures").dead == 2)
        for count in (4, 8):
            await send_again(memory, "pictures", "pictures")
            await until(lambda count=count: len(gallery.seen) == count)
    assert all(each == PICTURE for each in gallery.seen)


async def test_parts_of_a_message_with_an_id_have_one_each_and_the_whole_has_its_own(
    memory: MemoryBroker, registry: Registry
) -> None:
    async with Client(memory, registry) as client:
        await client.publish_in_parts("pictures", PICTURE, headers={headers.MESSAGE_ID: "p"}, part_size=4000)
    parts = sorted(payloads(memory, "pictures"), key=lambda part: part.header(headers.SEQUENCE_POSITION))
    assert [part.header(headers.MESSAGE_ID) for part in parts] == [b"p/0", b"p/1", b"p/2"]
    assert join(parts).header(headers.MESSAGE_ID) == b"p"


async def test_what_is_always_sent_in_parts_keeps_what_is_said_of_it(
    memory: MemoryBroker, registry: Registry
) -> None:
    memory.capabilities = replace(memory.capabilities, replay=False)
    async with Client(memory, registry) as client:
        contracts = Contracts(registry, client.options)
        bound = await contracts.bind("pictures", Picture)
        await memory.create(Channel("pictures", 3))
        pictures: Producer[Picture] = Producer(
            "pictures", bound, memory, contracts, client.metrics.of("pictures"), Sending(60.0, in_parts=True)
        )
        await pictures.publish(PICTURE, partition=2, expires_in=5.0)
        await pictures.publish_many([PICTURE, PICTURE], partition=1)
        with pytest.raises(EncodeError, match="no parts"):
            await pictures.publish_in_parts(None)  # type: ignore[arg-type]
    parts = payloads(memory, "pictures")
    assert [part.partition for part in parts] == [1, 1, 2]
    assert all(part.header(headers.SEQUENCE_SIZE) == b"1" for part in parts)
    assert len({part.header(headers.MESSAGE_ID) for part in parts}) == 3
    late, _, soon = (int(part.header(headers.EXPIRES_AT)) for part in parts)
    assert late - soon > 30_000


async def test_a_request_expires_as_all_that_is_sent_to_its_channel(
    memory: MemoryBroker, registry: Registry
) -> None:
    async with Client(memory, registry) as client:
        contracts = Contracts(registry, client.options)
        bound = await contracts.bind("pictures", Picture)
        await memory.create(Channel("pictures"))
        pictures: Producer[Picture] = Producer(
            "pictures", bound, memory, contracts, client.metrics.of("pictures"), Sending(60.0)
        )
        await pictures.send(PICTURE, None, ((headers.REPLY_TO, b"here"),))
    [request] = payloads(memory, "pictures")
    assert request.header(headers.REPLY_TO) == b"here"
    assert request.header(headers.EXPIRES_AT) is not None


async def test_an_endpoint_for_batches_says_that_it_takes_no_parts(
    memory: MemoryBroker, registry: Registry
) -> None:
    seen: list[Picture] = []

    @endpoint("pictures", options=EndpointOptions(retry=RetryOptions(attempts=1)))
    async def on_pictures(pictures: list[Picture]) -> None:
        seen.extend(pictures)

    async with Client(memory, registry, [on_pictures]) as client:
        await client.publish_in_parts("pictures", PICTURE, part_size=4000)
        await client.publish("pictures", PICTURE)
        await until(lambda: client.metrics.of("pictures").dead == 3 and seen)
    assert seen == [PICTURE]
    for letter in payloads(memory, "pictures.dead"):
        assert letter.header(headers.ERROR_CODE) == b"message.sequence"
        assert b"cannot put it together" in letter.header(headers.ERROR_MESSAGE)


async def test_more_open_sequences_than_fit_wait_for_their_turn(
    memory: MemoryBroker, registry: Registry
) -> None:
    await memory.create(Channel("pictures", 1))
    one, two = await parts_of(registry, 2600), await parts_of(registry, 2600)
    gallery = Gallery(SequenceOptions(parts=len(one), timeout=3600))
    async with Client(memory, registry, [gallery.endpoint]):
        await memory.publish([*one[:-1], *two[:-1], one[-1], two[-1]])
        await until(lambda: len(gallery.seen) == 2)
    assert gallery.seen == [PICTURE, PICTURE]


async def test_a_part_that_comes_again_while_it_is_tried_again_is_acknowledged_in_both_channels() -> None:
    """Its first acknowledgement had failed: it is in its own channel still, and in that for later, too."""

    async def handle(whole: Message) -> Outcome:
        return DONE

    async def refuse(part: Message, error: MessageError) -> Outcome:
        raise error

    assembler, pauses = Assembler(handle, refuse, SequenceOptions(), Pauses(), ChannelMetrics()), Pauses()
    first, second = (
        part._replace(offset=number)
        for number, part in enumerate(cut(Message("pictures", b"abcdef", None, (), 0), 3))
    )
    route = Route("e", "g", lambda frame: frame)
    later = waiting(Delivery(first, route), "pictures.later", ValueError(), 0.0, 1)._replace(
        partition=0, offset=7
    )
    receivers = ScriptedReceiver(), ScriptedReceiver()
    intakes = {
        "pictures": Intake(assembler.take, 1, ChannelMetrics()),
        "pictures.later": Intake(when_due(assembler.take, "pictures", pauses), 1, ChannelMetrics()),
    }
    own, aside = (Flight(receiver, True, intakes) for receiver in receivers)
    aside.take([later])
    await until(lambda: aside.waiting == 1)
    own.take([first, second])
    await until(lambda: own.unhandled == 0)
    await own.settle()
    await until(lambda: aside.waiting == 0)
    await aside.settle()
    assert [receiver.offsets for receiver in receivers] == [[1], [7]]
    assert aside.count == own.count == 0
