"""The minimal example in real processes: a consumer is killed in the middle, and every message is handled."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples" / "minimal"
COUNT = 300


class Program:
    """One program of the example, its lines gathered as they come."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.lines: list[str] = []
        self.changed = asyncio.Condition()
        self.reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            async with self.changed:
                self.lines.append(line.decode().strip())
                self.changed.notify_all()

    async def printed(self, text: str, times: int = 1) -> Program:
        async with asyncio.timeout(120), self.changed:
            await self.changed.wait_for(lambda: sum(text in line for line in self.lines) >= times)
        return self

    @property
    def handled(self) -> set[int]:
        return {int(line.split()[1]) for line in self.lines if line.startswith("handled ")}

    async def stop(self) -> None:
        if self.process.returncode is None:
            self.process.kill()
        await self.process.wait()
        await self.reading


async def start(name: str, folder: Path, *arguments: str) -> Program:
    environment = {key: value for key, value in os.environ.items() if not key.startswith("DRAGOMAN_")}
    return Program(
        await asyncio.create_subprocess_exec(
            sys.executable,
            str(EXAMPLE / name),
            *arguments,
            cwd=folder,
            env=environment,
            stdout=asyncio.subprocess.PIPE,
        )
    )


async def test_every_request_is_handled_though_a_consumer_is_killed(tmp_path: Path) -> None:
    consumers = [await start("consumer.py", tmp_path) for _ in range(2)]
    producer = None
    try:
        for consumer in consumers:
            await consumer.printed("ready")
        producer = await start("producer.py", tmp_path, str(COUNT))
        # Either may have most of the work: the one that is at it is killed.
        busy = [asyncio.create_task(consumer.printed("handled", times=5)) for consumer in consumers]
        done, late = await asyncio.wait(busy, return_when=asyncio.FIRST_COMPLETED)
        doomed = done.pop().result()
        survivor = next(consumer for consumer in consumers if consumer is not doomed)
        for task in late:
            task.cancel()
        await asyncio.gather(*busy, return_exceptions=True)
        doomed.process.kill()
        await doomed.process.wait()
        await doomed.reading
        async with asyncio.timeout(120), survivor.changed:
            everything = set(range(COUNT + 1))
            await survivor.changed.wait_for(lambda: doomed.handled | survivor.handled >= everything)
        async with asyncio.timeout(120):
            assert await producer.process.wait() == 0
            await producer.reading
        assert f"request {COUNT} costs 3.4 %" in producer.lines
        survivor.process.terminate()
        async with asyncio.timeout(60):
            assert await survivor.process.wait() == 0
    finally:
        for program in (*consumers, *([producer] if producer else [])):
            await program.stop()
