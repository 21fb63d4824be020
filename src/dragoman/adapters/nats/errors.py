"""What the driver raises, and what it means to us."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from nats import errors as theirs
from nats.js import errors as streams

from dragoman.core.errors import (
    AccessRefused,
    BrokerError,
    BrokerUnavailable,
    DragomanError,
    EncodeError,
    Unsupported,
)

Meaning = tuple[type[DragomanError], str, str]

_DRIVER: Meaning = BrokerError, "The driver refused the call.", "Report it, with what was done."
_AUTH: Meaning = (
    AccessRefused,
    "NATS refused who we are.",
    "Correct user, token, NKEY or credentials in the URL.",
)
_AWAY: Meaning = (
    BrokerUnavailable,
    "NATS cannot be reached.",
    "Is the server up? It is tried again on the next call.",
)
_LATE: Meaning = (
    BrokerUnavailable,
    "NATS did not answer in time.",
    "It is not known whether the call was carried out.",
)
_TLS: Meaning = (
    BrokerUnavailable,
    "The encrypted connection failed.",
    "See the option tls, and the certificates.",
)
_REFUSED: Meaning = BrokerError, "JetStream refused the call.", "See the cause."
_JETSTREAM: Meaning = (
    BrokerUnavailable,
    "JetStream does not answer.",
    "Start the server with JetStream (-js), and see that it has room on its disk.",
)

TABLE: dict[type[Exception], Meaning] = {
    theirs.TimeoutError: _LATE,
    theirs.FlushTimeoutError: _LATE,
    theirs.DrainTimeoutError: _LATE,
    theirs.NoRespondersError: _JETSTREAM,
    theirs.StaleConnectionError: _AWAY,
    theirs.UnexpectedEOF: _AWAY,
    theirs.OutboundBufferLimitError: _AWAY,
    theirs.ConnectionClosedError: _AWAY,
    theirs.ConnectionDrainingError: _AWAY,
    theirs.ConnectionReconnectingError: _AWAY,
    theirs.NoServersError: _AWAY,
    theirs.ServerNotInPoolError: _AWAY,
    theirs.ProtocolError: _AWAY,
    theirs.JsonParseError: _AWAY,
    theirs.SecureConnRequiredError: _TLS,
    theirs.SecureConnWantedError: _TLS,
    theirs.SecureConnFailedError: _TLS,
    theirs.AuthorizationError: _AUTH,
    theirs.InvalidUserCredentialsError: _AUTH,
    theirs.MaxPayloadError: (
        EncodeError,
        "A message is larger than the server allows.",
        "Raise max_payload on the server, or send a reference to where the data lies.",
    ),
    theirs.SlowConsumerError: _DRIVER,
    theirs.BadSubscriptionError: _DRIVER,
    theirs.BadSubjectError: _DRIVER,
    theirs.BadHeaderError: _DRIVER,
    theirs.BadTimeoutError: _DRIVER,
    theirs.InvalidCallbackTypeError: _DRIVER,
    theirs.NotJSMessageError: _DRIVER,
    theirs.MsgAlreadyAckdError: _DRIVER,
    theirs.Error: _DRIVER,
    streams.ServiceUnavailableError: _JETSTREAM,
    streams.NoStreamResponseError: _JETSTREAM,
    streams.ServerError: _JETSTREAM,
    streams.FetchTimeoutError: _LATE,
    streams.TooManyStalledMsgsError: _LATE,
    streams.NotFoundError: _REFUSED,
    streams.BadRequestError: _REFUSED,
    streams.ConsumerInvalidResetError: _REFUSED,
    streams.ConsumerSequenceMismatchError: _REFUSED,
    streams.BucketNotFoundError: _REFUSED,
    streams.BadBucketError: _REFUSED,
    streams.KeyValueError: _REFUSED,
    streams.KeyDeletedError: _REFUSED,
    streams.KeyNotFoundError: _REFUSED,
    streams.KeyWrongLastSequenceError: _REFUSED,
    streams.NoKeysError: _REFUSED,
    streams.KeyHistoryTooLargeError: _REFUSED,
    streams.InvalidKeyError: _REFUSED,
    streams.InvalidBucketNameError: _REFUSED,
    streams.InvalidObjectNameError: _REFUSED,
    streams.BadObjectMetaError: _REFUSED,
    streams.LinkIsABucketError: _REFUSED,
    streams.DigestMismatchError: _REFUSED,
    streams.ObjectNotFoundError: _REFUSED,
    streams.ObjectDeletedError: _REFUSED,
    streams.ObjectAlreadyExists: _REFUSED,
    streams.KeyValueLimitMarkerTTLNotSupportedError: _REFUSED,
    streams.APIError: _REFUSED,
    streams.Error: _REFUSED,
}


class Refused(Exception):
    """JetStream's own answer, by its number. Does not leave the adapter."""

    STREAM_NOT_FOUND = 10059
    CONSUMER_NOT_FOUND = 10014
    MESSAGE_NOT_FOUND = 10037
    NAME_IN_USE = 10058
    SUBJECTS_OVERLAP = 10065
    WRONG_LAST_SEQUENCE = 10071

    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(error.get("description", "?"))
        self.code = int(error.get("code", 0))
        self.number = int(error.get("err_code", 0))

    def meaning(self) -> Meaning:
        if self.number in (10076, 10039):
            return (
                Unsupported,
                "JetStream is not enabled here.",
                "Start the server with -js, or enable it for this account.",
            )
        if self.number in (10023, 10028, 10047, 10077):
            return (
                BrokerUnavailable,
                "JetStream has no room left.",
                "Raise its limits, or shorten the retention.",
            )
        if self.code == 503:
            return _JETSTREAM
        return BrokerError, f"JetStream refused the call: {self}.", "See the server's log."


def translated(error: BaseException, **where: Any) -> DragomanError:
    kind, what, next = _meaning(error)
    code = "message.too-large" if isinstance(error, theirs.MaxPayloadError) else None
    return kind(what, next=next, code=code, **where)


def _meaning(error: BaseException) -> Meaning:
    if isinstance(error, Refused):
        return error.meaning()
    if isinstance(error, ssl.SSLError):
        return _TLS
    text = str(error).lower()
    if type(error) is theirs.Error and ("authorization" in text or "authentication" in text):
        return _AUTH
    if type(error) is theirs.Error and "permissions violation" in text:
        return AccessRefused, "NATS does not let this user do that.", "Give it the subjects of the prefix."
    for cls in type(error).__mro__:
        if cls in TABLE:
            return TABLE[cls]
    return _LATE if isinstance(error, asyncio.TimeoutError) else _AWAY


@contextmanager
def ours(**where: Any) -> Iterator[None]:
    """Errors of the driver and of the network become ours."""
    try:
        yield
    except (theirs.Error, Refused, OSError, EOFError, TimeoutError) as error:
        raise translated(error, **where) from error
