"""A process of the soak: a producer or a consumer that may be killed at any moment.

    python -m tests.soak.worker producer|consumer FOLDER BROKER NUMBER COUNT BATCH PAUSE

Both write what they did to a file of their own, line by line, straight to the system: what is written is
there whatever happens to the process. A producer goes on behind what it knows to be confirmed.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from dragoman import Client, ClientOptions, endpoint, record
from dragoman.core.errors import DragomanError

CHANNEL = "soak"
GROUP = "soak"
KEYS = 8
"""Per producer. Each producer has keys of its own, so that the order of a key is the order of its sender."""
READY = b"ready\n"


@record
class Tick:
    producer: int
    number: int


@dataclass(frozen=True)
class Job:
    kind: str
    folder: Path
    broker: str
    number: int
    count: int
    batch: int
    pause: float

    @property
    def journal(self) -> Path:
        return self.folder / f"{self.kind}-{self.number}"

    @property
    def registry(self) -> str:
        return f"sqlite://{self.folder / 'registry.db'}"

    @property
    def arguments(self) -> list[str]:
        return [
            self.kind,
            str(self.folder),
            self.broker,
            str(self.number),
            str(self.count),
            str(self.batch),
            str(self.pause),
        ]

    @classmethod
    def parse(cls, arguments: list[str]) -> Job:
        kind, folder, broker, number, count, batch, pause = arguments
        return cls(kind, Path(folder), broker, int(number), int(count), int(batch), float(pause))

    def client(self, *controllers: object) -> Client:
        options = ClientOptions(group=GROUP, name=f"{self.kind}-{self.number}", window=256)
        return Client(self.broker, self.registry, controllers, options=options)


def confirmed(journal: Path) -> int:
    """How many of a producer's messages are known to be accepted. A line that was cut off does not count."""
    if not journal.exists():
        return 0
    lines = journal.read_bytes().split(b"\n")[:-1]
    return max((int(line) for line in lines if line.isdigit()), default=0)


def _key(tick: Tick) -> str:
    return f"{tick.producer}-{tick.number % KEYS}"


async def produce(job: Job, journal: int) -> None:
    done = confirmed(job.journal)
    async with job.client() as client:
        os.write(journal, READY)
        while done < job.count:
            batch = [Tick(job.number, number) for number in range(done, min(done + job.batch, job.count))]
            try:
                await client.publish_many(
                    CHANNEL, batch, key=lambda tick: f"{job.number}-{tick.number % KEYS}"
                )
            except DragomanError:
                # It is not known which were accepted: all of them are sent again.
                await asyncio.sleep(0.1)
                continue
            done += len(batch)
            os.write(journal, b"%d\n" % done)
            await asyncio.sleep(job.pause)


async def consume(job: Job, journal: int) -> None:
    @endpoint(CHANNEL)
    async def on_tick(tick: Tick) -> None:
        # One clock for all processes of the machine: the order of handling can be told from it.
        os.write(journal, b"%d %d %d\n" % (time.monotonic_ns(), tick.producer, tick.number))

    async with job.client(on_tick) as client:
        os.write(journal, READY)
        await client.run()


async def main(job: Job) -> None:
    """Until it is done; a server that is away at the start is waited for."""
    journal = os.open(job.journal, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    while True:
        try:
            await (produce if job.kind == "producer" else consume)(job, journal)
        except DragomanError as error:
            print(f"{job.journal.name}: {error}", file=sys.stderr)
            await asyncio.sleep(0.2)
        else:
            return


if __name__ == "__main__":
    asyncio.run(main(Job.parse(sys.argv[1:])))
