"""What went aside while the demo ran: dead letters, expired and invalid messages, counted as they come."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from dragoman.cli.demo.places import loan_broker
from dragoman.client.headers import ERROR_CODE, ORIGINAL_CHANNEL, ORIGINAL_OFFSET, ORIGINAL_PARTITION
from dragoman.core.broker import Acknowledgement, Broker, Receiver, Subscription
from dragoman.core.errors import MessageExpired
from dragoman.core.message import Message


class Letters:
    """Listens from now on, so it works on every broker, also on one that was used before."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._channels = loan_broker("channels")
        self._receiver: Receiver | None = None
        self.counts: Counter[str] = Counter()
        self._seen: set[tuple[str | bytes | None, ...]] = set()

    async def __aenter__(self) -> Self:
        names = (self._channels.UNDELIVERABLE, self._channels.INVALID)
        group = f"demo-{secrets.token_hex(4)}"
        self._receiver = await self._broker.subscribe(Subscription(names, group, start="latest"))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._receiver is not None:
            await self._receiver.close()

    async def look(self) -> None:
        """Count what has come since the last time."""
        assert self._receiver is not None
        while found := await self._receiver.receive(500, 0.05):
            for each in found:
                self._count(each)
            await self._receiver.acknowledge(self._highest(found))

    def _highest(self, found: Sequence[Message]) -> Sequence[Message]:
        if self._broker.capabilities.acknowledgement is Acknowledgement.EACH:
            return found
        return list({(each.channel, each.partition): each for each in found}.values())

    def _count(self, letter: Message) -> None:
        if letter.header(ORIGINAL_CHANNEL) != self._channels.LOAN_REQUEST.encode():
            return
        # Whoever is replaced while it works may have the same request sent, or buried, a second time.
        spot = letter.header(ORIGINAL_PARTITION), letter.header(ORIGINAL_OFFSET)
        what = (letter.channel, letter.key) if letter.key is not None else (letter.channel, *spot)
        if what in self._seen:
            return
        if letter.key is not None or spot[1] is not None:
            self._seen.add(what)
        code = (letter.header(ERROR_CODE) or b"").decode()
        if letter.channel == self._channels.INVALID:
            self.counts["invalid"] += 1
        else:
            self.counts["expired" if code == MessageExpired.code else "dead"] += 1
