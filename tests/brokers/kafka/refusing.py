"""A way to Kafka on which the first batch of a producer is refused, and the next one is not.

So does a leader that takes up its work between the two.
"""

from __future__ import annotations

import asyncio
import contextlib
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from dragoman.formats.thrift.wire import unsigned
from tests.services.kafka import Kafka

PRODUCE = 0
NOT_LEADER = 6


@asynccontextmanager
async def refusing(server: Kafka) -> AsyncIterator[Refusing]:
    way = Refusing(server.proxied_port)
    listener = await asyncio.start_server(way.accept, "127.0.0.1", server.proxy_port)
    way.url = f"kafka://127.0.0.1:{server.proxy_port}"
    try:
        yield way
    finally:
        listener.close()
        await way.end()


class Refusing:
    """``refused`` is set when the first batch is there.

    The producer hears of it after the server has answered the next one, as if that had been on its way
    already.
    """

    url: str

    def __init__(self, target: int) -> None:
        self.refused = asyncio.Event()
        self._target = target
        self._over = asyncio.Event()
        self._connections: set[asyncio.Task[None]] = set()
        self._failures: list[BaseException] = []

    async def end(self) -> None:
        self._over.set()
        await asyncio.gather(*self._connections)
        assert not self._failures, self._failures

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        server_reader, server_writer = await asyncio.open_connection("127.0.0.1", self._target)
        refusals: dict[int, bytes] = {}
        """By the number of the request whose answer they go before."""

        async def ask() -> None:
            refusal = None
            async for request in _frames(reader):
                kind, _, number = struct.unpack_from(">hhi", request)
                if kind == PRODUCE and not self.refused.is_set():
                    refusal = _refusal(request)
                    self.refused.set()
                    continue
                if kind == PRODUCE and refusal is not None:
                    refusals[number], refusal = refusal, None
                server_writer.write(_framed(request))

        async def answer() -> None:
            async for found in _frames(server_reader):
                (number,) = struct.unpack_from(">i", found)
                if number in refusals:
                    writer.write(_framed(refusals.pop(number)))
                writer.write(_framed(found))

        ends = [asyncio.ensure_future(each) for each in (ask(), answer(), self._over.wait())]
        ended, _ = await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        self._failures += [failure for each in ended if (failure := each.exception()) is not None]
        for end in ends:
            end.cancel()
        writer.close()
        server_writer.close()
        self._connections.discard(task)


async def _frames(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    with contextlib.suppress(OSError, asyncio.IncompleteReadError):
        while True:
            (size,) = struct.unpack(">i", await reader.readexactly(4))
            yield await reader.readexactly(size)


def _framed(content: bytes) -> bytes:
    return struct.pack(">i", len(content)) + content


def _refusal(request: bytes) -> bytes:
    """The answer to a request that writes to one partition, as librdkafka's do."""
    _, version, correlation, client = struct.unpack_from(">hhih", request)
    assert 9 <= version <= 12, "Earlier and later ones are written in another way."
    at = _after_number(request, 10 + max(client, 0))
    at = _after_text(request, at) + struct.calcsize(">hi")
    begin = _after_number(request, at)
    at = _after_text(request, begin)
    topic = request[begin:at]
    (partition,) = struct.unpack_from(">i", request, _after_number(request, at))
    none, one, nothing_more = b"\x01", b"\x02", b"\x00"
    refused = struct.pack(">ihqqq", partition, NOT_LEADER, -1, -1, -1) + none + b"\x00" + nothing_more
    parts = topic, one, refused, nothing_more
    return struct.pack(">i", correlation) + nothing_more + one + b"".join(parts) + bytes(4) + nothing_more


def _after_number(data: bytes, at: int) -> int:
    return unsigned(data, at)[1]


def _after_text(data: bytes, at: int) -> int:
    """Its length is written as one more, and as 0 if there is none."""
    size, at = unsigned(data, at)
    return at + max(size - 1, 0)
