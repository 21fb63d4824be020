"""When a request ends as a letter, whoever asked is told, instead of waiting in vain.

Errors that the endpoint declares are answers, and cross the wire with all their fields: see ``reply``.
"""

from __future__ import annotations

import secrets

from dragoman.client.headers import (
    CORRELATION_ID,
    ERROR_CODE,
    ERROR_MESSAGE,
    ERROR_REFERENCE,
    MESSAGE_ID,
    REPLY_TO,
    new_message_id,
    text_of,
)
from dragoman.core.errors import DragomanError, RemoteFailure
from dragoman.core.message import Message

UNKNOWN = "endpoint.failed"


def new_reference() -> str:
    """What a requester may quote and the letter shows: how a failure is found again."""
    return secrets.token_hex(6)


def refusal_of(request: Message, cause: BaseException, reference: str) -> Message | None:
    """What is sent to the return address; ``None`` if the message has none.

    Errors of Dragoman go as they are. What another error says may be nobody else's business, so only that
    there was one is told.
    """
    address = request.header(REPLY_TO)
    if address is None:
        return None
    if isinstance(cause, DragomanError):
        code, text = cause.code, str(cause)
    else:
        code, text = UNKNOWN, "The endpoint failed."
    pairs = [
        (MESSAGE_ID, new_message_id()),
        (ERROR_CODE, code.encode()),
        (ERROR_MESSAGE, text.encode(errors="backslashreplace")),
        (ERROR_REFERENCE, reference.encode()),
    ]
    correlation = request.header(CORRELATION_ID)
    if correlation is not None:
        pairs.append((CORRELATION_ID, correlation))
    return Message(text_of(address), None, request.key, tuple(pairs))


def refused(answer: Message) -> RemoteFailure | None:
    """The error that an answer stands for, if it is not a reply."""
    code = answer.header(ERROR_CODE)
    if code is None:
        return None
    return RemoteFailure(
        f"The request was not handled: {text_of(answer.header(ERROR_MESSAGE))}",
        next="Look at the dead letters of the channel.",
        error_code=text_of(code),
        reference=text_of(answer.header(ERROR_REFERENCE)) or None,
    )
