"""Sending a message that cannot be handled to where somebody will look at it, with the cause."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable

from dragoman.client import headers as names
from dragoman.client.delivery import Delivery
from dragoman.client.refusal import new_reference, refusal_of
from dragoman.client.sequence.parts import Whole
from dragoman.core.broker import Broker
from dragoman.core.errors import DragomanError
from dragoman.core.message import Message, with_headers

log = logging.getLogger("dragoman.client")

Bury = Callable[[Delivery, str, BaseException], Awaitable[None]]
"""The delivery, the channel it goes to, and why."""

LONGEST_TEXT = 500


def burial(broker: Broker, answering: Broker | None = None) -> Bury:
    """``answering`` sends what requesters are told, if another broker is to do that."""

    async def bury(delivery: Delivery, channel: str, cause: BaseException) -> None:
        """Returns once the broker has it. The frame and the key are untouched."""
        reference = new_reference()
        await broker.publish(letters(delivery, channel, cause, reference))
        refusal = refusal_of(delivery.message, cause, reference)
        if refusal is not None:
            await tell(delivery, refusal)

    async def tell(delivery: Delivery, refusal: Message) -> None:
        try:
            await (answering or broker).publish([refusal])
        except DragomanError as error:
            log.info(
                "Nobody could be told of a failure.", extra=delivery.place() | {"error_code": error.code}
            )

    return bury


def letters(delivery: Delivery, channel: str, cause: BaseException, reference: str) -> list[Message]:
    """One letter; for a message that came in parts one for each, since the whole may be too large to send."""
    message = delivery.message
    pairs = [*_cause(delivery, cause), (names.ERROR_REFERENCE, reference.encode())]
    parts = message.parts if isinstance(message, Whole) else (message,)
    return [Message(channel, part.payload, part.key, with_headers(part.headers, *pairs)) for part in parts]


def code_of(cause: BaseException) -> str:
    return cause.code if isinstance(cause, DragomanError) else "endpoint.failed"


def _said_by(cause: BaseException) -> str:
    """The error's text. An error of the application may fail to make one; its letter is sent all the same."""
    try:
        return str(cause)
    except (SystemExit, KeyboardInterrupt):
        raise
    except BaseException as error:
        return f"The text of this error could not be made: {type(error).__qualname__}."


def _cause(delivery: Delivery, cause: BaseException) -> list[tuple[str, bytes]]:
    message, route = delivery.message, delivery.route
    now = int(time.time() * 1000)
    known: dict[str, object | None] = {
        names.ORIGINAL_CHANNEL: message.channel,
        names.ORIGINAL_PARTITION: message.partition,
        names.ORIGINAL_OFFSET: message.offset,
        names.ORIGINAL_TIMESTAMP: message.timestamp,
        names.CONTRACT: route.version and route.version.contract,
        names.CONTRACT_VERSION: route.version and route.version.version,
        names.GROUP: route.group,
        names.ENDPOINT: route.endpoint,
        names.ERROR_CODE: code_of(cause),
        names.ERROR_TYPE: f"{type(cause).__module__}.{type(cause).__qualname__}",
        names.ERROR_MESSAGE: _said_by(cause)[:LONGEST_TEXT],
        names.ATTEMPTS: delivery.attempt if delivery.failure is not None else 0,
        names.DELIVERIES: message.attempt,
        names.FIRST_FAILED_AT: _first_failed(message) or delivery.failed_at or now,
        names.FAILED_AT: now,
    }
    # What an error says may not be text that can be written; its letter is sent all the same.
    return [
        (name, str(value).encode(errors="backslashreplace"))
        for name, value in known.items()
        if value is not None
    ]


def _first_failed(message: Message) -> str:
    """When it failed for the first time, if it was tried again later since."""
    retried = message.header(names.RETRIES) is not None
    return names.text_of(message.header(names.FIRST_FAILED_AT)) if retried else ""
