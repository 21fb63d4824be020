"""A program that handles jobs, and ends in the handler of number 5 if told so.

    python exiting.py URL REGISTRY CHANNEL FILE WAY END

WAY is the name of a handler below, END is "exit", "interrupt", "return" or "nothing". It appends the number
of each job that it handles to FILE, and "ready" once its endpoint receives.
"""

from __future__ import annotations

import asyncio
import os
import sys

from dragoman import Client, EndpointOptions, RetryOptions, endpoint, record

URL, REGISTRY, CHANNEL, FILE, WAY, END = sys.argv[1:]
LAST = 5
DONE = os.open(FILE, os.O_APPEND | os.O_CREAT | os.O_WRONLY)
returning = asyncio.Event()


@record
class Job:
    number: int


def leave(job: Job) -> None:
    if job.number == LAST and END == "exit":
        sys.exit(3)
    if job.number == LAST and END == "interrupt":
        raise KeyboardInterrupt


def note(job: Job) -> None:
    os.write(DONE, f"{job.number}\n".encode())


async def by_value(job: Job) -> None:
    if job.number == LAST and END == "return":
        returning.set()
        await asyncio.Event().wait()
    leave(job)
    note(job)


def in_thread(job: Job) -> None:
    leave(job)
    note(job)


async def in_batches(jobs: list[Job]) -> None:
    for job in jobs:
        leave(job)
    for job in jobs:
        note(job)


async def main() -> None:
    options = EndpointOptions(retry=RetryOptions(attempts=1), batch_size=3, batch_wait=0.01)
    client = Client(URL, REGISTRY, [endpoint(CHANNEL, group=CHANNEL, options=options)(globals()[WAY])])
    if END == "return":
        await client.__aenter__()
        os.write(DONE, b"ready\n")
        await returning.wait()
        return
    async with client:
        os.write(DONE, b"ready\n")
        await client.run()


asyncio.run(main())
