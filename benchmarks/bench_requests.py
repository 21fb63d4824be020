"""A request and its reply through ``memory://``, beside FastStream's request and a bare pair of queues.

One process, one core, CPU time. Ours encodes both records to Avro under their contracts, carries them over
two channels of the broker with acknowledgement, and finds the one who waits by the correlation. FastStream's
``request`` goes through its in-memory NATS: there the handler is called inside ``publish``, without a queue,
and its logging is left out. The bare queues carry JSON by msgspec between two tasks: what asyncio costs.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import time
from collections.abc import Awaitable, Callable

import msgspec

from dragoman import Client, endpoint, record


@record
class Request:
    number: int
    amount: float


@record
class Reply:
    number: int
    rate: float


async def ours(count: int, at_once: int) -> float:
    """CPU seconds for so many requests, ``at_once`` of them under way at any time."""

    @endpoint("requests", group="bench")
    async def on_request(request: Request) -> Reply:
        return Reply(request.number, 3.4)

    async with (
        Client("memory://bench", "memory://", [on_request]) as server,
        Client("memory://bench", server.registry) as client,
    ):

        async def ask(number: int) -> None:
            reply = await client.request("requests", Request(number, 1.0), reply=Reply)
            assert reply.number == number

        await ask(0)
        started = time.process_time()
        for start in range(0, count, at_once):
            await asyncio.gather(*(ask(start + offset) for offset in range(at_once)))
        return time.process_time() - started


async def one_by_one(count: int) -> float:
    """As ``ours``, without any tasks around the requests."""

    @endpoint("requests", group="bench")
    async def on_request(request: Request) -> Reply:
        return Reply(request.number, 3.4)

    async with (
        Client("memory://bench", "memory://", [on_request]) as server,
        Client("memory://bench", server.registry) as client,
    ):
        await client.request("requests", Request(0, 1.0), reply=Reply)
        started = time.process_time()
        for number in range(count):
            await client.request("requests", Request(number, 1.0), reply=Reply)
        return time.process_time() - started


async def faststream(count: int) -> float:
    from faststream._internal.logger.logger_proxy import EmptyLoggerObject
    from faststream.nats import NatsBroker, TestNatsBroker
    from pydantic import BaseModel

    class RequestModel(BaseModel):
        number: int
        amount: float

    class ReplyModel(BaseModel):
        number: int
        rate: float

    broker = NatsBroker(logger=None)

    @broker.subscriber("requests")
    async def on_request(request: RequestModel) -> ReplyModel:
        return ReplyModel(number=request.number, rate=3.4)

    async with TestNatsBroker(broker):
        broker.config.logger.logger = EmptyLoggerObject()
        started = time.process_time()
        for number in range(count):
            answer = await broker.request(RequestModel(number=number, amount=1.0), "requests")
            assert ReplyModel.model_validate(await answer.decode()).number == number
        return time.process_time() - started


async def queues(count: int) -> float:
    class Struct(msgspec.Struct):
        number: int
        amount: float

    encode, decode = msgspec.json.encode, msgspec.json.Decoder(Struct).decode
    there: asyncio.Queue[bytes] = asyncio.Queue()
    back: asyncio.Queue[bytes] = asyncio.Queue()

    async def serve() -> None:
        while True:
            await back.put(encode(decode(await there.get())))

    serving = asyncio.create_task(serve())
    started = time.process_time()
    for number in range(count):
        await there.put(encode(Struct(number, 1.0)))
        assert decode(await back.get()).number == number
    seconds = time.process_time() - started
    serving.cancel()
    return seconds


def best(rounds: int, count: int, run: Callable[[int], Awaitable[float]]) -> float:
    """Microseconds each, in the quickest of some rounds: the others met more of the machine's noise."""
    seconds = []
    for _ in range(rounds):
        gc.collect()
        seconds.append(asyncio.run(run(count)))  # type: ignore[arg-type]
    return min(seconds) / count * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    count, rounds = given.count, given.rounds
    peer = best(rounds, count // 5, faststream)
    rows = [
        ("Dragoman, one request at a time", best(rounds, count, one_by_one)),
        ("Dragoman, 1,000 requests at a time", best(rounds, count, lambda n: ours(n, min(n, 1000)))),
        ("FastStream, `request` on its in-memory NATS", peer),
        ("two asyncio queues and msgspec", best(rounds, count, queues)),
    ]
    print("| request and reply | CPU microseconds | against FastStream |")
    print("| --- | ---: | ---: |")
    for name, each in rows:
        print(f"| {name} | {each:,.1f} | {peer / each:.1f} x |")


if __name__ == "__main__":
    main()
