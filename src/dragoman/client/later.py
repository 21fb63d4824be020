"""Trying a message again later, while those behind it go on."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable

from dragoman.client import headers as names
from dragoman.client.burial import code_of
from dragoman.client.delivery import Delivery
from dragoman.client.endpoint import Endpoint
from dragoman.client.options import LaterOptions
from dragoman.client.outcome import Outcome, again
from dragoman.client.pausing import Pauses
from dragoman.client.transactional.brokered import RECEIVED
from dragoman.core.broker import Broker, Capabilities
from dragoman.core.message import Message, with_headers

Postpone = Callable[[Delivery, BaseException, float], Awaitable[Outcome]]
"""The delivery, why it failed, and in how many seconds it is to come again."""

Handle = Callable[[Message], Awaitable[Outcome]]

_WIRE = frozenset(
    {
        names.NOT_BEFORE,
        names.ORIGINAL_CHANNEL,
        names.ORIGINAL_PARTITION,
        names.ORIGINAL_OFFSET,
        names.ORIGINAL_TIMESTAMP,
        names.LAST_ERROR_CODE,
    }
)


def keeps_aside(capabilities: Capabilities) -> bool:
    """The broker can hold a released message back, and counts its deliveries: it needs no retry channels."""
    return capabilities.delayed_delivery and capabilities.delivery_count


def retry_channels(endpoint: Endpoint, capabilities: Capabilities) -> list[str]:
    """Where messages of the endpoint wait for their next delivery, if the broker cannot keep them aside."""
    options = endpoint.options.later
    if options is None or keeps_aside(capabilities):
        return []
    return [
        options.channel_of(endpoint.channel, endpoint.group, level) for level in range(len(options.delays))
    ]


def retry_group(group: str) -> str:
    """Who reads the retry channels of a group: a group beside it, which does not disturb its members."""
    return f"{group}.retry"


def retries_of(message: Message, capabilities: Capabilities) -> int:
    """How often it has been tried again later."""
    if keeps_aside(capabilities):
        return message.attempt - 1
    return number(message, names.RETRIES) or 0


def postponing(broker: Broker, options: LaterOptions, group: str) -> Postpone:
    """Give it back with a delay, or send it to the channel where it waits."""
    if keeps_aside(broker.capabilities):

        async def give_back(delivery: Delivery, error: BaseException, delay: float) -> Outcome:
            return again(delay)

        return give_back

    async def send(delivery: Delivery, error: BaseException, delay: float) -> Outcome:
        level = retries_of(delivery.message, broker.capabilities)
        target = options.channel_of(delivery.message.channel, group, level)
        await broker.publish([waiting(delivery, target, error, delay, level + 1)])
        return Outcome(acknowledge=True)

    return send


def waiting(delivery: Delivery, channel: str, error: BaseException, delay: float, retries: int) -> Message:
    """The message as it lies in a retry channel."""
    message, now = delivery.message, int(time.time() * 1000)
    known: dict[str, object | None] = {
        names.RETRIES: retries,
        names.NOT_BEFORE: now + int(delay * 1000),
        names.FIRST_FAILED_AT: number(message, names.FIRST_FAILED_AT) or delivery.failed_at or now,
        names.LAST_ERROR_CODE: code_of(error),
        names.ORIGINAL_CHANNEL: message.channel,
        names.ORIGINAL_PARTITION: message.partition,
        names.ORIGINAL_OFFSET: message.offset,
        names.ORIGINAL_TIMESTAMP: message.timestamp,
    }
    pairs = [(name, str(value).encode()) for name, value in known.items() if value is not None]
    return Message(channel, message.payload, message.key, with_headers(message.headers, *pairs))


def restored(message: Message) -> Message:
    """As it was in its own channel, and how often it was tried."""
    return Message(
        names.text_of(message.header(names.ORIGINAL_CHANNEL)),
        message.payload,
        message.key,
        tuple(pair for pair in message.headers if pair[0] not in _WIRE),
        number(message, names.ORIGINAL_PARTITION),
        number(message, names.ORIGINAL_OFFSET),
        number(message, names.ORIGINAL_TIMESTAMP),
        message.attempt + (number(message, names.RETRIES) or 0),
    )


def when_due(handle: Handle, channel: str, pauses: Pauses) -> Handle:
    """For the messages of a retry channel: wait, then handle them as what they were."""

    async def handle_when_due(message: Message) -> Outcome:
        due = number(message, names.NOT_BEFORE) or 0
        remaining = due / 1000 - time.time()
        if remaining > 0 and not await pauses(remaining):
            return again()
        original = restored(message)
        token = RECEIVED.set(message)
        try:
            # Whoever sends foreign messages here means them for the channel that this one serves.
            return await handle(
                original if original.channel == channel else message._replace(channel=channel)
            )
        finally:
            RECEIVED.reset(token)

    return handle_when_due


def number(message: Message, name: str) -> int | None:
    value = message.header(name)
    return int(value) if value is not None and value.isdigit() and len(value) < 20 else None
