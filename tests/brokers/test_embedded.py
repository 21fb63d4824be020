"""What is particular to the embedded broker: its folder, its options, its processes."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from pathlib import Path

import pytest

from dragoman.adapters.embedded import EmbeddedBroker
from dragoman.adapters.embedded.channels import delete_channel
from dragoman.adapters.embedded.database import open_database
from dragoman.core.broker import Receiver, Subscription
from dragoman.core.channel import Channel
from dragoman.core.errors import (
    BrokerError,
    BrokerUnavailable,
    ChannelNotFound,
    ConfigurationError,
    EncodeError,
)
from dragoman.core.loading import path_of
from dragoman.core.message import Message
from dragoman.testing.brokers import Harness
from dragoman.testing.brokers.rig import FULL, numbered, payloads
from dragoman.testing.child import Child


@pytest.fixture
def harness(tmp_path: Path) -> Harness:
    return Harness(f"embedded://{tmp_path}/data?segment_bytes=2000")


def folder_of(harness: Harness) -> Path:
    return Path(path_of(harness.url))


async def test_everything_is_there_after_all_are_gone(harness: Harness) -> None:
    async with harness.rig() as rig:
        broker = await rig.broker()
        channel = await rig.channel(broker, partitions=2)
        receiver = await rig.receiver(broker, channel)
        await broker.publish(numbered(channel, 50, keys=7))
        held = await rig.receive_some(receiver, limit=20)
        await rig.acknowledge(receiver, held)
        await broker.publish(numbered(channel, 5, start=50), delay=0.01)
    async with harness.rig() as rig:
        broker = await rig.broker()
        assert await broker.channels() == [channel]
        rest = set(payloads(55)) - {message.payload for message in held}
        found = await rig.collect(await rig.receiver(broker, channel), rest)
        assert {message.payload for message in found} == rest


async def test_killed_processes_leave_a_sound_folder(harness: Harness) -> None:
    """Publishers and consumers die together, again and again; what was confirmed is read in the end."""
    async with harness.rig() as rig:
        channel = await rig.channel(await rig.broker(), partitions=2)
    confirmed: list[str] = []
    for _ in range(40 if FULL else 3):
        async with (
            Child("publish", harness.url, channel) as publisher,
            Child("hold", harness.url, channel, "group") as consumer,
        ):
            await consumer.ready()
            confirmed += [await publisher.line() for _ in range(random.randrange(1, 60))]
            await asyncio.sleep(random.uniform(0.0, 0.005))
            publisher.kill()
            consumer.kill()
            confirmed += await publisher.rest()
    async with harness.rig() as rig:
        broker = await rig.broker()
        receiver = await rig.receiver(broker, channel)
        await broker.publish([Message(channel, b"last", partition=0), Message(channel, b"last", partition=1)])
        end = {partition: end for partition, (_, end) in broker.log().partitions(channel).items()}
        found: dict[tuple[int | None, int | None], bytes | None] = {}
        while sum(end.values()) > len(found):
            batch = await rig.receive_some(receiver)
            found.update({(message.partition, message.offset): message.payload for message in batch})
            await rig.acknowledge(receiver, batch)
        # A publisher may have had the time to publish very much.
        assert Counter(line.encode() for line in confirmed) <= Counter(found.values())


async def test_delayed_messages_wait_for_the_next_process(harness: Harness) -> None:
    async with harness.rig() as rig:
        broker = await rig.broker()
        channel = await rig.channel(broker)
        await broker.publish(
            [Message(channel, b"x", key=b"k", headers=(("h", b"1"), ("h", b"2")))], delay=0.2
        )
    async with harness.rig() as rig:
        broker = await rig.broker()
        receiver = await rig.receiver(broker, channel)
        [message] = await rig.receive_some(receiver)
        assert (message.key, message.headers) == (b"k", (("h", b"1"), ("h", b"2")))


async def test_a_delayed_message_enters_the_log_without_a_receiver(harness: Harness) -> None:
    async with harness.rig() as rig:
        broker = await rig.broker()
        channel = await rig.channel(broker, partitions=1)
        await broker.publish([Message(channel, b"x")], delay=0.05)
        log = broker.log()
        await rig.until(lambda: log.partitions(channel)[0] == (0, 1))
        log.close()


async def test_retention_drops_old_segments_and_groups_go_on(harness: Harness) -> None:
    async with harness.rig() as rig:
        broker = await rig.broker()
        channel = await rig.channel(broker, partitions=1)
        receiver = await rig.receiver(broker, channel)
        old = [message._replace(timestamp=1_000_000) for message in numbered(channel, 100)]
        for start in range(0, 100, 10):
            await broker.publish(old[start : start + 10])
        held = await rig.receive_some(receiver, limit=5)
        await receiver.release(held[1:2], delay=0.01)
        await broker.alter(Channel(channel, 1, retention=3600.0))
        await broker.publish(numbered(channel, 10, start=100))
        await rig.collect(receiver, payloads(10, start=100))
        start, end = broker.log().partitions(channel)[0]
        assert (start, end) == (100, 110)
        assert (await broker.describe(channel)).retention == 3600.0
        assert [lag.behind for lag in await broker.lag(channel)] == [0]


async def test_a_channel_deleted_while_it_is_received_ends_quietly(harness: Harness) -> None:
    async with harness.rig() as rig:
        broker, other = await rig.broker(), await rig.broker()
        channel = await rig.channel(broker)
        receiver = await rig.receiver(broker, channel)
        await broker.publish(numbered(channel, 10))
        await rig.receive_some(receiver, limit=2)
        await other.delete(channel)
        await rig.until(lambda: not (folder_of(harness) / "channels/1").exists())
        await receiver.receive(100, 0.3)
        assert list(await receiver.receive(100, 0.0)) == []
        with pytest.raises(ChannelNotFound):
            await broker.publish(numbered(channel, 1))


async def test_a_receiver_of_two_channels_goes_on_when_one_is_deleted(harness: Harness) -> None:
    async with harness.rig() as rig:
        broker = await rig.broker()
        left, right = await rig.channel(broker), await rig.channel(broker)
        receiver = await rig.receiver(broker, (left, right))
        await broker.publish([*numbered(left, 10), *numbered(right, 10, start=10)])
        await rig.collect(receiver, payloads(20))
        await broker.delete(left)
        await broker.publish(numbered(right, 10, start=20))
        await rig.collect(receiver, payloads(10, start=20))


async def test_a_delayed_message_to_a_channel_that_is_being_deleted_is_refused(harness: Harness) -> None:
    """It would wait for ever: nobody could bring it in."""
    async with harness.rig() as rig:
        broker = await rig.broker()
        channel = await rig.channel(broker)
        await broker.publish(numbered(channel, 1))
        connection = open_database(folder_of(harness), "never")
        delete_channel(folder_of(harness), channel)(connection)
        connection.close()
        with pytest.raises(ChannelNotFound):
            await broker.publish(numbered(channel, 1), delay=0.01)


async def test_a_delayed_message_that_could_not_be_stored_is_refused_at_once(harness: Harness) -> None:
    async with harness.rig() as rig:
        broker = await rig.broker()
        channel = await rig.channel(broker)
        with pytest.raises(EncodeError):
            await broker.publish([Message(channel, b"x", headers=(("n" * 70_000, b""),))], delay=0.01)


async def test_what_stood_aside_is_not_lost_when_the_log_cannot_be_read(harness: Harness) -> None:
    async with harness.rig() as rig:
        broker = await rig.broker()
        channel = await rig.channel(broker, partitions=1)
        receiver = await rig.receiver(broker, channel)
        await broker.publish([Message(channel, b"first")])
        held = await rig.receive_some(receiver)
        await broker.publish([Message(channel, b"second")])
        log = folder_of(harness) / "channels/1/0" / f"{0:020}.log"
        whole = log.read_bytes()
        log.write_bytes(whole.replace(b"first", b"fIrst").replace(b"second", b"sEcond"))
        await receiver.release(held, delay=1e-6)
        with pytest.raises(BrokerError, match="damaged"):
            await rig.receive_some(receiver)
        log.write_bytes(whole)
        found = await rig.collect(receiver, [b"first", b"second"])
        assert {message.payload: message.attempt for message in found} == {b"first": 2, b"second": 1}


async def test_what_a_power_failure_took_from_the_log_does_not_hide_what_follows(harness: Harness) -> None:
    """The group was written down as further than the log that is left."""
    async with harness.rig() as rig:
        broker = await rig.broker()
        channel = await rig.channel(broker, partitions=1)
        await broker.publish(numbered(channel, 2))
        partition = folder_of(harness) / "channels/1"
        bounds, log = partition / "bounds", partition / "0" / f"{0:020}.log"
        left = bounds.read_bytes(), log.read_bytes()
        receiver = await rig.receiver(broker, channel)
        await broker.publish(numbered(channel, 3, start=2))
        await rig.collect(receiver, payloads(5))
    bounds.write_bytes(left[0])
    log.write_bytes(left[1])
    async with harness.rig() as rig:
        broker = await rig.broker()
        receiver = await rig.receiver(broker, channel)
        await broker.publish(numbered(channel, 3, start=5))
        await rig.collect(receiver, payloads(3, start=5))


async def test_many_processes_publish_to_one_partition(harness: Harness) -> None:
    async with harness.rig() as rig:
        broker = await rig.broker()
        channel = await rig.channel(broker, partitions=1)
        async with (
            Child("publish", harness.url, channel, "2") as one,
            Child("publish", harness.url, channel, "5") as other,
        ):
            told = [[await child.line() for _ in range(100)] for child in (one, other)]
            one.kill()
            other.kill()
            for lines, child in zip(told, (one, other), strict=True):
                lines += await child.rest()
        receiver = await rig.receiver(broker, channel)
        await broker.publish([Message(channel, b"last")])
        found = await rig.collect(receiver, [b"last"])
        confirmed = Counter(line.encode() for lines in told for line in lines)
        assert confirmed <= Counter(message.payload for message in found)
        assert [message.offset for message in found] == list(range(len(found)))


@pytest.mark.parametrize("fsync", ["always", "batch", "never"])
async def test_each_way_to_sync_delivers(tmp_path: Path, fsync: str) -> None:
    async with Harness(f"embedded://{tmp_path}?fsync={fsync}").rig() as rig:
        broker = await rig.broker()
        channel = await rig.channel(broker)
        await broker.publish(numbered(channel, 20))
        await rig.collect(await rig.receiver(broker, channel), payloads(20))


async def test_large_batches_are_split_and_keep_their_positions(harness: Harness) -> None:
    async with harness.rig() as rig:
        broker = await rig.broker()
        channel = await rig.channel(broker, partitions=1)
        positions = await broker.publish([Message(channel, b"x" * 700_000) for _ in range(15)])
        assert [position.offset for position in positions if position] == list(range(15))
        positions = await broker.publish(numbered(channel, 9000))
        assert [position.offset for position in positions if position] == list(range(15, 9015))
        log = broker.log()
        start, counted = 0, 0
        while start < 9015:
            found = log.read(channel, 0, start, 9015)
            start, counted = found.next_offset, counted + found.count
        assert counted == 9015
        log.close()


async def test_a_payload_beyond_the_limit_is_refused(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dragoman.adapters.embedded.publisher.MAX_PAYLOAD", 5 << 20)
    async with harness.rig() as rig:
        broker = await rig.broker()
        channel = await rig.channel(broker)
        with pytest.raises(EncodeError) as caught:
            await broker.publish([Message(channel, bytes(6 << 20))])
        assert caught.value.code == "message.too-large"


async def test_a_waiting_receiver_is_woken_by_another_process(harness: Harness) -> None:
    async with harness.rig() as rig:
        broker = await rig.broker()
        channel = await rig.channel(broker)
        receiver = await rig.receiver(broker, channel)
        waiting = asyncio.create_task(receiver.receive(1, 60.0))
        async with Child("publish", harness.url, channel) as child:
            await child.line()
            assert await waiting


async def test_reading_a_folder_that_is_not_there_makes_none(tmp_path: Path) -> None:
    log = EmbeddedBroker(f"embedded://{tmp_path}/none").log()
    assert log.channels() == []
    with pytest.raises(ChannelNotFound):
        log.partitions("c")
    assert not (tmp_path / "none").exists()


async def test_wrong_options_are_refused(tmp_path: Path) -> None:
    for bad in ("fsync=sometimes", "segment_bytes=0", "segment_bytes=x", "lease=-1", "handover=nan", "x=1"):
        with pytest.raises(ConfigurationError):
            EmbeddedBroker(f"embedded://{tmp_path}?{bad}")


async def test_it_says_what_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(BrokerUnavailable):
        await EmbeddedBroker(f"embedded://{tmp_path}/file").connect()
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "broker.db").write_text("not a database, but long enough to be looked at" * 100)
    with pytest.raises(BrokerUnavailable):
        await EmbeddedBroker(f"embedded://{tmp_path}/foreign").connect()
    with pytest.raises(BrokerUnavailable):
        EmbeddedBroker(f"embedded://{tmp_path}/foreign").log().channels()
    broker = EmbeddedBroker(f"embedded://{tmp_path}/data")
    with pytest.raises(BrokerUnavailable):
        await broker.publish([Message("c", b"")])
    await broker.connect()
    await broker.create(Channel("c", 2))
    with pytest.raises(ConfigurationError):
        await broker.publish([Message("c", b"", partition=7)])
    with pytest.raises(ConfigurationError):
        await broker.create(Channel("d", 1_000_000))
    receiver = await broker.subscribe(Subscription(("c",), "g"))
    await broker.close()
    with pytest.raises(BrokerUnavailable):
        await receiver.receive(1, 0.0)


async def test_the_default_folder_is_hidden_in_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    broker = EmbeddedBroker("embedded://")
    await broker.connect()
    await broker.close()
    assert (tmp_path / ".dragoman" / "broker.db").exists()


@pytest.mark.parametrize("step", [-3600, 3600])
async def test_a_step_of_the_clock_moves_no_partition(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    real = time.time
    async with Harness(f"embedded://{tmp_path}/data").rig() as rig:
        broker, other = await rig.broker(), await rig.broker()
        channel = await rig.channel(broker, partitions=4)
        old = await rig.receiver(broker, channel)
        assert not await old.receive(10, 0.0)
        monkeypatch.setattr(time, "time", lambda: real() + step)
        new = await rig.receiver(other, channel)
        found: dict[Receiver, int] = {old: 0, new: 0}
        async with asyncio.timeout(60):
            while min(found.values()) < 20:
                await broker.publish([Message(channel, b"x", partition=each) for each in range(4)])
                for receiver in found:
                    messages = await receiver.receive(10, 0.05)
                    found[receiver] += len(messages)
                    await receiver.acknowledge(messages)
