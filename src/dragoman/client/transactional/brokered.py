"""Consume and produce in one transaction of the broker: all that a handler sends, and its acknowledgement."""

from __future__ import annotations

from contextvars import ContextVar
from typing import cast

from dragoman.client.delivery import Delivery
from dragoman.client.outcome import Handler, Outcome
from dragoman.core.broker import Broker, Receiver, Transactional
from dragoman.core.message import Message

RECEIVER: ContextVar[Receiver | None] = ContextVar("dragoman-receiver", default=None)
"""Where the message that is being handled came from."""
GATHERED: ContextVar[list[Message] | None] = ContextVar("dragoman-gathered", default=None)
"""What the handler has sent so far, to be published when it is done."""


def gather(messages: tuple[Message, ...] | list[Message]) -> bool:
    """Whether these belong to a transaction under way; if so, they are part of it now."""
    gathered = GATHERED.get()
    if gathered is None:
        return False
    gathered += messages
    return True


def in_transaction(handler: Handler, broker: Broker) -> Handler:
    """What fails leaves nothing behind; what is done is done as a whole."""

    async def invoke(delivery: Delivery) -> Outcome:
        gathered: list[Message] = []
        token = GATHERED.set(gathered)
        try:
            outcome = await handler(delivery)
        finally:
            GATHERED.reset(token)
        if outcome.acknowledge:
            transactional = cast("Transactional", broker)
            await transactional.transact(gathered, RECEIVER.get(), (delivery.message,))
        return outcome

    return invoke
