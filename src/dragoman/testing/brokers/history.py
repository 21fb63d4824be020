"""The log can be read again by offset, as columns."""

from __future__ import annotations

import pickle
from array import array
from itertools import pairwise

import pytest

from dragoman.core.broker import Broker, LogReader
from dragoman.core.errors import ChannelNotFound
from dragoman.core.log import LogSlice, unpack_headers
from dragoman.core.message import Message
from dragoman.testing.brokers.rig import Harness, numbered, payloads


def messages_of(channel: str, partition: int, found: LogSlice) -> list[Message]:
    """The messages of a slice, one by one: what columns are to avoid, and tests may do."""

    def cut(bounds: object, data: object) -> list[bytes]:
        numbers = array("i", bytes(bounds))  # type: ignore[call-overload]
        return [bytes(data)[start:end] for start, end in pairwise(numbers)]  # type: ignore[call-overload]

    offsets, times = array("q", bytes(found.offsets)), array("q", bytes(found.timestamps))
    values, keys = cut(found.value_bounds, found.values), cut(found.key_bounds, found.keys)
    headers = cut(found.header_bounds, found.headers)
    return [
        Message(
            channel,
            None if found.value_nulls[index] else values[index],
            None if found.key_nulls[index] else keys[index],
            unpack_headers(headers[index]),
            partition,
            offsets[index],
            times[index],
        )
        for index in range(found.count)
    ]


def read_all(log: LogReader, channel: str) -> list[Message]:
    found: list[Message] = []
    for partition, (start, end) in log.partitions(channel).items():
        while start < end:
            part = log.read(channel, partition, start, end)
            found += messages_of(channel, partition, part)
            assert part.next_offset > start
            start = part.next_offset
    return found


@pytest.mark.asyncio
class HistoryTests:
    async def test_the_log_holds_what_was_published(self, harness: Harness) -> None:
        harness.need("replay")
        async with harness.rig() as rig:
            broker = await rig.broker()
            channel = await rig.channel(broker, partitions=3)
            sent = [
                message._replace(
                    headers=(("n", message.payload or b""),), timestamp=1_700_000_000_000 + number
                )
                for number, message in enumerate(numbered(channel, 200, keys=11))
            ]
            if harness.tombstones:
                sent.append(Message(channel, None, key=b"gone", timestamp=1_700_000_000_500))
            for start in range(0, len(sent), 17):
                await broker.publish(sent[start : start + 17])
            log = broker.log()
            found = read_all(log, channel)
            log.close()
            assert {(one.payload, one.key, one.headers, one.timestamp) for one in found} == {
                (one.payload, one.key, one.headers, one.timestamp) for one in sent
            }
            assert len(found) == len(sent)

    async def test_reading_the_log_starts_and_ends_where_it_is_told(self, harness: Harness) -> None:
        harness.need("replay")
        async with harness.rig() as rig:
            broker = await rig.broker()
            channel = await rig.channel(broker, partitions=1)
            for start in range(0, 60, 10):
                await broker.publish(numbered(channel, 10, start=start))
            log = broker.log()
            base, end = log.partitions(channel)[0]
            assert end - base == 60
            for first, last in ((0, 60), (5, 6), (13, 47), (59, 60), (60, 60)):
                part = log.read(channel, 0, base + first, base + last)
                found = [message.payload for message in messages_of(channel, 0, part)]
                assert found == payloads(60)[first : first + len(found)]
                assert bool(found) == (last > first) and len(found) <= last - first
            log.close()

    async def test_the_log_finds_an_offset_by_time(self, harness: Harness) -> None:
        harness.need("replay")
        async with harness.rig() as rig:
            broker = await rig.broker()
            channel = await rig.channel(broker, partitions=1)
            for start in range(0, 50, 10):
                await broker.publish(
                    [
                        message._replace(timestamp=1_600_000_000_000 + 100 * (start + number))
                        for number, message in enumerate(numbered(channel, 10, start=start))
                    ]
                )
            log = broker.log()
            base, end = log.partitions(channel)[0]
            assert log.offset_at(channel, 0, 0) == base
            assert log.offset_at(channel, 0, 1_600_000_000_000 + 2_300) == base + 23
            assert log.offset_at(channel, 0, 1_600_000_000_000 + 2_301) == base + 24
            assert log.offset_at(channel, 0, 1_600_000_999_999) == end
            log.close()

    async def test_reading_the_log_touches_no_group(self, harness: Harness) -> None:
        harness.need("replay")
        async with harness.rig() as rig:
            broker = await rig.broker()
            channel = await rig.channel(broker)
            receiver = await rig.receiver(broker, channel)
            await broker.publish(numbered(channel, 20))
            log = broker.log()
            assert channel in log.channels()
            assert len(read_all(log, channel)) == 20
            log.close()
            await rig.collect(receiver, payloads(20))

    async def test_the_log_can_be_read_by_another_process(self, harness: Harness) -> None:
        harness.need("replay")
        if not harness.other_processes:
            pytest.skip("the broker lives in one process")
        async with harness.rig() as rig:
            broker = await rig.broker()
            channel = await rig.channel(broker)
            await broker.publish(numbered(channel, 20))
            log = pickle.loads(pickle.dumps(self._fresh(broker)))
            assert len(read_all(log, channel)) == 20
            log.close()

    @staticmethod
    def _fresh(broker: Broker) -> LogReader:
        return broker.log()

    async def test_an_unknown_channel_has_no_log(self, harness: Harness) -> None:
        harness.need("replay")
        async with harness.rig() as rig:
            log = (await rig.broker()).log()
            with pytest.raises(ChannelNotFound):
                log.partitions("suite-not-there")
            log.close()
