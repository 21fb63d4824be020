"""Consume and produce in one transaction of the broker: all that a handler sends, and its acknowledgement."""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar
from typing import cast

from dragoman.client.delivery import Delivery
from dragoman.client.headers import REPLY_TO, text_of
from dragoman.client.outcome import Handler, Outcome
from dragoman.core.broker import Broker, Receiver, Transactional
from dragoman.core.errors import ChannelNotFound
from dragoman.core.message import Message

RECEIVER: ContextVar[Receiver | None] = ContextVar("dragoman-receiver", default=None)
"""Where the message that is being handled came from."""
RECEIVED: ContextVar[Message | None] = ContextVar("dragoman-received", default=None)
"""The message as it was received, where it is handled as what it was before."""


class Gathering:
    """What the handler has sent so far, to be published when it is done."""

    __slots__ = ("messages", "open")

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.open = True


GATHERING: ContextVar[Gathering | None] = ContextVar("dragoman-gathering", default=None)


def gather(messages: Sequence[Message]) -> bool:
    """Whether these belong to a transaction under way; if so, they are part of it now."""
    gathering = GATHERING.get()
    if gathering is None or not gathering.open:
        return False
    gathering.messages += messages
    return True


def in_transaction(handler: Handler, broker: Broker) -> Handler:
    """What fails leaves nothing behind; what is done is done as a whole."""

    async def invoke(delivery: Delivery) -> Outcome:
        gathering = Gathering()
        token = GATHERING.set(gathering)
        try:
            outcome = await handler(delivery)
        finally:
            # What tasks of the handler send when it has ended goes out by itself.
            gathering.open = False
            GATHERING.reset(token)
        if outcome.acknowledge:
            await commit(gathering.messages, delivery.message)
        return outcome

    async def commit(messages: list[Message], handled: Message) -> None:
        done = (RECEIVED.get() or handled,)
        transactional = cast("Transactional", broker)
        try:
            await transactional.transact(messages, RECEIVER.get(), done)
        except ChannelNotFound:
            # Whoever asked may have left, and taken the return address along. The work is done all the same.
            address = text_of(handled.header(REPLY_TO))
            rest = [each for each in messages if each.channel != address]
            if len(rest) == len(messages):
                raise
            await transactional.transact(rest, RECEIVER.get(), done)

    return invoke
