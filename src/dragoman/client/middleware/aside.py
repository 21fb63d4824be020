"""Put a message that no handler gets into a channel for such messages."""

from __future__ import annotations

import logging

from dragoman.client.burial import Bury, code_of
from dragoman.client.delivery import Delivery
from dragoman.client.outcome import DONE, LONGEST_REST, Outcome, again

log = logging.getLogger("dragoman.client")


async def put_aside(
    delivery: Delivery,
    error: Exception,
    channel: str | None,
    bury: Bury,
    what: str,
    *,
    level: int = logging.WARNING,
    **where: object,
) -> Outcome:
    """Acknowledge the message once the channel has it. Without a channel it is never acknowledged.

    ``what`` and ``where`` are for the log. The error's text is not logged, for it may quote the payload.
    """
    place = delivery.place() | {"error_code": code_of(error), **where}
    if channel is None:
        log.error("%s, and there is no channel for such messages.", what, extra=place)
        return again(LONGEST_REST)
    await bury(delivery, channel, error)
    log.log(level, "%s.", what, extra=place)
    return DONE
