"""When a request ends as a letter, whoever asked is told, instead of waiting in vain."""

from __future__ import annotations

from dragoman.client.headers import CORRELATION_ID, ERROR_CODE, ERROR_MESSAGE, REPLY_TO, text_of
from dragoman.core.errors import ClientError, DragomanError
from dragoman.core.message import Message


def refusal_of(request: Message, cause: BaseException) -> Message | None:
    """What is sent to the return address; ``None`` if the message has none.

    Errors of Dragoman go as they are. What another error says may be nobody else's business, so only that
    there was one is told.
    """
    address = request.header(REPLY_TO)
    if address is None:
        return None
    known = isinstance(cause, DragomanError)
    pairs = [
        (ERROR_CODE, (cause.code if isinstance(cause, DragomanError) else "endpoint.failed").encode()),
        (ERROR_MESSAGE, (str(cause) if known else "The endpoint failed.").encode()),
    ]
    correlation = request.header(CORRELATION_ID)
    if correlation is not None:
        pairs.append((CORRELATION_ID, correlation))
    return Message(text_of(address), None, request.key, tuple(pairs))


def refused(answer: Message) -> ClientError | None:
    """The error that an answer stands for, if it is not a reply."""
    code = answer.header(ERROR_CODE)
    if code is None:
        return None
    return ClientError(
        f"The request was not handled: {text_of(answer.header(ERROR_MESSAGE))}",
        code="client.request-failed",
        next="Look at the dead letters of the channel.",
        error_code=text_of(code),
    )
