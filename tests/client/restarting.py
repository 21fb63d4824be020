"""A program that handles jobs with four handlers at once until it is asked to end by a signal.

    python restarting.py URL REGISTRY CHANNEL FILE NAME

It appends the number of each job that it handles to FILE, and its NAME when it is ready.
"""

from __future__ import annotations

import asyncio
import os
import sys

from dragoman import Client, EndpointOptions, endpoint, record

URL, REGISTRY, CHANNEL, FILE, NAME = sys.argv[1:]


@record
class Job:
    number: int


async def main() -> None:
    done = os.open(FILE, os.O_APPEND | os.O_CREAT | os.O_WRONLY)

    @endpoint(CHANNEL, group="workers", options=EndpointOptions(concurrency=4))
    async def on_job(job: Job) -> None:
        # Some take longer, so that the four are not equally far.
        await asyncio.sleep(0.005 if job.number % 7 else 0.04)
        os.write(done, f"{job.number}\n".encode())

    async with Client(URL, REGISTRY, [on_job]) as client:
        # Once the signals mean something: when ``run`` waits.
        asyncio.get_running_loop().call_soon(os.write, done, f"{NAME}\n".encode())
        await client.run()


asyncio.run(main())
