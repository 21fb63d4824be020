"""Examples as programs of their own."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "examples"
PATIENCE = 120.0


class Program:
    """One that is told to stop, or killed, at the latest when the block ends."""

    def __init__(self, *arguments: str, **environment: str) -> None:
        self._arguments = arguments
        self._environment = {key: each for key, each in os.environ.items() if not key.startswith("DRAGOMAN_")}
        self._environment |= environment
        self.process: asyncio.subprocess.Process | None = None

    async def __aenter__(self) -> Program:
        self.process = await asyncio.create_subprocess_exec(
            sys.executable,
            *self._arguments,
            cwd=EXAMPLES,
            env=self._environment,
            stdout=asyncio.subprocess.PIPE,
        )
        return self

    async def line(self) -> str:
        assert self.process is not None
        assert self.process.stdout is not None
        raw = await asyncio.wait_for(self.process.stdout.readline(), PATIENCE)
        assert raw, "the program ended"
        return raw.decode().strip()

    async def wait(self) -> int:
        """Until it ends, however long that takes; its exit code."""
        assert self.process is not None
        return await self.process.wait()

    async def kill(self) -> None:
        assert self.process is not None
        if self.process.returncode is None:
            self.process.kill()
        await self.process.communicate()

    async def __aexit__(self, *_: object) -> None:
        await self.kill()
