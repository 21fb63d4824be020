"""Dead letters and invalid messages: looked at, sent back to where they came from, or put away.

A letter that is dealt with stays in its channel; a marker behind it says so. Any broker that can read its
past can do that.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, cast

from dragoman.client import headers as names
from dragoman.client.headers import text_of
from dragoman.client.history import Damaged, history
from dragoman.client.sequence.parts import resent
from dragoman.core.broker import Broker, Transactional
from dragoman.core.errors import MessageExpired, NotFound
from dragoman.core.message import Message, Position, with_headers

Settlement = Literal["replayed", "discarded"]


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A message that could not be handled, and why. ``message`` is as it lies in the letters' channel."""

    message: Message

    @property
    def id(self) -> str:
        """``partition:offset`` in the letters' channel."""
        return f"{self.message.partition}:{self.message.offset}"

    def cause(self, name: str) -> str:
        """One of the headers that say why, as text; empty if it is not there."""
        return text_of(self.message.header(name))

    @property
    def channel(self) -> str:
        """Where it came from; by the name of the letters' channel if no header says so."""
        return self.cause(names.ORIGINAL_CHANNEL) or self.message.channel.rpartition(".")[0]

    @property
    def code(self) -> str:
        return self.cause(names.ERROR_CODE)

    @property
    def failed_at(self) -> int:
        """Milliseconds since the epoch."""
        text = self.cause(names.FAILED_AT)
        return int(text) if text.isdecimal() else self.message.timestamp or 0

    def restored(self) -> Message:
        """As it was when it came in, and how often it has been sent back."""
        message = self.message
        before = message.header(names.REPLAYS) or b"0"
        replays = int(before) + 1 if before.isdigit() else 1
        # Whoever sends back an expired message wants it handled: it would expire again at once.
        dropped = names.CAUSE | {names.EXPIRES_AT} if self.code == MessageExpired.code else names.CAUSE
        kept = tuple(pair for pair in message.headers if pair[0] not in dropped)
        history = (
            (names.REPLAYS, str(replays).encode()),
            (names.REPLAYED_FROM, f"{message.channel}:{self.id}".encode()),
            (names.LAST_ERROR_CODE, self.code.encode()),
        )
        back = Message(self.channel, message.payload, message.key, with_headers(kept, *history))
        return resent(back, str(replays).encode())


class DeadLetters:
    """The letters in one channel, such as ``orders.dead`` or ``orders.invalid``.

    Letters that cannot be read any more are left out if ``damaged`` is given: it is called, in another
    thread, for each such range. A letter whose marker cannot be read counts as open.
    """

    def __init__(self, broker: Broker, channel: str, *, damaged: Damaged | None = None) -> None:
        self._broker = broker
        self._channel = channel
        self._damaged = damaged

    async def find(
        self, *, code: str | None = None, since: int | None = None, endpoint: str | None = None
    ) -> list[DeadLetter]:
        """Those not dealt with yet, oldest first. ``code`` may be the beginning of one.

        Raises ``ChannelNotFound``, ``Unsupported``; ``DamagedLog`` if ``damaged`` was not given.
        """
        letters: dict[str, DeadLetter] = {}
        async for message in history(self._broker, self._channel, damaged=self._damaged):
            settled = message.header(names.SETTLED)
            if settled is None:
                letter = DeadLetter(message)
                letters[letter.id] = letter
            else:
                letters.pop(text_of(settled), None)
        return [
            letter
            for letter in letters.values()
            if (code is None or letter.code.startswith(code))
            and (since is None or letter.failed_at >= since)
            and (endpoint is None or letter.cause(names.ENDPOINT) == endpoint)
        ]

    async def get(self, id: str) -> DeadLetter:
        """Raises ``NotFound`` also for a letter that is dealt with."""
        [letter] = await self.get_all([id])
        return letter

    async def get_all(self, ids: Sequence[str]) -> list[DeadLetter]:
        """Several, in the order of their ids. Raises ``NotFound`` if one of them is not open."""
        open = {letter.id: letter for letter in await self.find()}
        for id in ids:
            if id not in open:
                raise NotFound(
                    f"There is no open letter {id!r}.",
                    code="client.no-such-letter",
                    next="List them first; a letter's id is partition:offset.",
                    channel=self._channel,
                )
        return [open[id] for id in dict.fromkeys(ids)]

    async def replay(self, letters: Sequence[DeadLetter]) -> Sequence[Position | None]:
        """Send them back to the channels they came from, and mark them, once each.

        A broker with transactions does both or neither. On others a crash in between leaves a letter open,
        so it may be sent twice, but none is lost.
        """
        positions: list[Position | None] = []
        for letter in letters:
            pair = [letter.restored(), self._marker(letter, "replayed")]
            if self._broker.capabilities.transactions:
                positions += (await cast(Transactional, self._broker).transact(pair))[:1]
            else:
                positions += await self._broker.publish(pair[:1])
                await self._broker.publish(pair[1:])
        return positions

    async def discard(self, letters: Sequence[DeadLetter]) -> None:
        """They stay in the channel, marked, until its retention removes them."""
        for letter in letters:
            await self._broker.publish([self._marker(letter, "discarded")])

    def _marker(self, letter: DeadLetter, how: Settlement) -> Message:
        """What says, behind the letter, that it is dealt with."""
        marks = (
            (names.SETTLED, letter.id.encode()),
            (names.SETTLED_AS, how.encode()),
            (names.FAILED_AT, str(int(time.time() * 1000)).encode()),
        )
        return Message(self._channel, None, None, marks, letter.message.partition)
