"""A process of its own for tests: one that can be killed without warning.

As a module it is that process: ``python -m dragoman.testing.child hold|visit|publish URL CHANNEL [GROUP]``.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from types import TracebackType
from typing import Any

from dragoman.core.broker import Broker, Subscription
from dragoman.core.loading import BROKERS, load, scheme_of
from dragoman.core.message import Message

PATIENCE = 60.0
READY = "ready"


class Child:
    """Runs one of the commands below; its output is read line by line. Killed at the latest on exit."""

    def __init__(self, command: str, url: str, channel: str, *more: str) -> None:
        self._arguments = (command, url, channel, *more)
        self._process: asyncio.subprocess.Process | None = None
        self._is_ready = False

    async def __aenter__(self) -> Child:
        self._process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", __name__, *self._arguments, stdout=asyncio.subprocess.PIPE
        )
        return self

    @property
    def process(self) -> asyncio.subprocess.Process:
        assert self._process is not None
        return self._process

    async def ready(self) -> None:
        """It has joined its group, or is about to publish."""
        if not self._is_ready:
            assert await self._line() == READY
            self._is_ready = True

    async def line(self) -> str:
        await self.ready()
        return await self._line()

    async def _line(self) -> str:
        assert self.process.stdout is not None
        raw = await asyncio.wait_for(self.process.stdout.readline(), PATIENCE)
        assert raw.endswith(b"\n"), "the process ended"
        return raw.decode().rstrip("\n")

    async def rest(self) -> list[str]:
        """The whole lines that it still wrote before it died."""
        assert self.process.stdout is not None
        raw = await asyncio.wait_for(self.process.stdout.read(), PATIENCE)
        return [line.decode() for line in raw.split(b"\n")[:-1]]

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGKILL)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        # What it still wrote is read to the end: a pipe left open would outlive the event loop.
        await self.process.communicate()


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


async def _hold(broker: Broker, channel: str, group: str) -> None:
    """Receive, tell, and acknowledge nothing."""
    receiver = await broker.subscribe(Subscription((channel,), group))
    _say(READY)
    while True:
        for message in await receiver.receive(100, 1.0):
            _say((message.payload or b"").decode())
        await receiver.extend()


async def _visit(broker: Broker, channel: str, group: str) -> None:
    """Be the only member of a group that is not durable: receive, acknowledge, tell."""
    receiver = await broker.subscribe(Subscription((channel,), group, durable=False))
    _say(READY)
    while True:
        for message in await receiver.receive(1, 1.0):
            await receiver.acknowledge([message])
            _say((message.payload or b"").decode())
        await receiver.extend()


async def _publish(broker: Broker, channel: str, size: str = "3") -> None:
    """Publish for ever, and tell what was accepted."""
    _say(READY)
    number = 0
    while True:
        batch = [b"%06d" % (number + index) for index in range(int(size))]
        number += len(batch)
        await broker.publish([Message(channel, payload, key=payload) for payload in batch])
        for payload in batch:
            _say(payload.decode())


_COMMANDS: dict[str, Any] = {"hold": _hold, "visit": _visit, "publish": _publish}


async def _main(command: str, url: str, *arguments: str) -> None:
    broker = load(BROKERS, scheme_of(url))(url)
    await broker.connect()
    await _COMMANDS[command](broker, *arguments)


if __name__ == "__main__":
    asyncio.run(_main(*sys.argv[1:]))
