"""A process of a run: a producer or a consumer that may be killed at any moment.

    python -m tests.soak.worker JOB

Both write what they do to their history. A producer goes on behind what it knows to be confirmed.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from dragoman import Client, ClientOptions, EndpointOptions, endpoint, record
from dragoman.client.connecting import open_broker
from dragoman.core.errors import DragomanError
from tests.soak.history import Event, Identity, Reader, Writer
from tests.soak.recording import record_calls

GROUP = "soak"
PARTITIONS = 4
KEYS = 32
"""Per producer. Each producer has keys of its own, so that the order of a key is the order of its sender."""


@record
class Tick:
    producer: int
    number: int


@dataclass(frozen=True)
class Job:
    kind: str
    number: int
    folder: str
    broker: str
    channel: str
    count: int
    """How many messages a producer publishes."""
    batch: int
    pause_s: float
    """How long a producer rests between batches."""
    concurrency: int
    handling_s: float
    """How long a handler takes at most."""

    @property
    def name(self) -> str:
        return f"{self.kind}-{self.number}"

    @property
    def history(self) -> Path:
        return Path(self.folder) / f"{self.name}.history"

    def written(self) -> str:
        return json.dumps(asdict(self))

    @asynccontextmanager
    async def client(self, history: Writer, *controllers: object) -> AsyncIterator[Client]:
        broker, _ = open_broker(self.broker)
        record_calls(broker, self.channel, history)
        options = ClientOptions(group=GROUP, name=self.name, partitions=PARTITIONS, window=256)
        registry = f"sqlite://{self.folder}/registry.db"
        try:
            await broker.connect()
            async with Client(broker, registry, controllers, options=options) as client:
                history.write("ready")
                yield client
        finally:
            await broker.close()


def key_of(message: Identity) -> tuple[int, int]:
    producer, number = message
    return producer, number % KEYS


def confirmed(events: list[Event]) -> int:
    """How many of a producer's messages are known to be accepted."""
    return max((event[4] for event in events if event[0] == "confirmed"), default=0)


async def produce(job: Job, history: Writer) -> None:
    done = confirmed(Reader(job.history).read())
    async with job.client(history) as client:
        while done < job.count:
            until = min(done + job.batch, job.count)
            batch = [Tick(job.number, number) for number in range(done, until)]
            history.write("sending", job.number, done, until)
            try:
                await client.publish_many(
                    job.channel, batch, key=lambda tick: f"{job.number}-{tick.number % KEYS}"
                )
            except DragomanError:
                # It is not known which were accepted: all of them are sent again.
                await asyncio.sleep(0.1)
                continue
            history.write("confirmed", job.number, done, until)
            done = until
            await asyncio.sleep(job.pause_s)


async def consume(job: Job, history: Writer) -> None:
    @endpoint(job.channel, options=EndpointOptions(concurrency=job.concurrency))
    async def on_tick(tick: Tick) -> None:
        history.write("begun", tick.producer, tick.number)
        if job.handling_s:
            # Some take longer, so that handlers that work at once are not equally far.
            await asyncio.sleep(job.handling_s / (1 if tick.number % 7 == 0 else 8))
        history.write("handled", tick.producer, tick.number)

    async with job.client(history, on_tick) as client:
        await client.run()


async def main(job: Job) -> None:
    """Until it is done; a server that is away at the start is waited for."""
    history = Writer(job.history)
    while True:
        try:
            await (produce if job.kind == "producer" else consume)(job, history)
        except DragomanError as error:
            print(f"{job.name}: {error}", file=sys.stderr)
            await asyncio.sleep(0.2)
        else:
            return


if __name__ == "__main__":
    asyncio.run(main(Job(**json.loads(sys.argv[1]))))
