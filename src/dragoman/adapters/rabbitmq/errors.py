"""The driver's errors as ours: one table."""

from __future__ import annotations

import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType

import aio_pika.exceptions as pika
import aiormq.exceptions as rmq
import pamqp.exceptions as amqp

from dragoman.core.errors import (
    AccessRefused,
    BrokerError,
    BrokerUnavailable,
    ChannelNotFound,
    ConfigurationError,
    DragomanError,
    GroupTaken,
    Unsupported,
)

UNAVAILABLE = BrokerUnavailable, "RabbitMQ is not to be reached.", "Check that it runs; then try again."
REFUSED = AccessRefused, "RabbitMQ does not let us in.", "Check user, password, vhost and permissions."
MISSING = ChannelNotFound, "RabbitMQ does not have this.", "Create the channel first."
LOCKED = GroupTaken, "Another connection holds this.", "Wait for it to end, or choose another group."
DIFFERENT = (
    ConfigurationError,
    "RabbitMQ has this already, with other settings.",
    "Delete it, or choose another name.",
)
TOO_OLD = Unsupported, "This RabbitMQ cannot do that.", "RabbitMQ 3.10 or later is needed."
MISUNDERSTOOD = BrokerError, "RabbitMQ and its driver do not understand each other.", "Report this."

Translation = tuple[type[DragomanError], str, str]

TABLE: Mapping[type[Exception], Translation] = MappingProxyType(
    {
        rmq.AMQPError: MISUNDERSTOOD,
        rmq.AMQPConnectionError: UNAVAILABLE,
        rmq.IncompatibleProtocolError: TOO_OLD,
        rmq.AuthenticationError: REFUSED,
        rmq.ProbableAuthenticationError: REFUSED,
        rmq.ConnectionClosed: UNAVAILABLE,
        rmq.ConnectionSyntaxError: MISUNDERSTOOD,
        rmq.ConnectionFrameError: MISUNDERSTOOD,
        rmq.ConnectionCommandInvalid: MISUNDERSTOOD,
        rmq.ConnectionChannelError: MISUNDERSTOOD,
        rmq.ConnectionUnexpectedFrame: MISUNDERSTOOD,
        rmq.ConnectionResourceError: UNAVAILABLE,
        rmq.ConnectionNotAllowed: REFUSED,
        rmq.ConnectionNotImplemented: TOO_OLD,
        rmq.ConnectionInternalError: UNAVAILABLE,
        rmq.AMQPChannelError: UNAVAILABLE,
        rmq.ChannelClosed: UNAVAILABLE,
        rmq.ChannelAccessRefused: REFUSED,
        rmq.ChannelNotFoundEntity: MISSING,
        rmq.ChannelLockedResource: LOCKED,
        rmq.ChannelPreconditionFailed: DIFFERENT,
        rmq.DuplicateConsumerTag: MISUNDERSTOOD,
        rmq.ProtocolSyntaxError: MISUNDERSTOOD,
        rmq.InvalidFrameError: MISUNDERSTOOD,
        rmq.MethodNotImplemented: TOO_OLD,
        rmq.DeliveryError: UNAVAILABLE,
        rmq.PublishError: UNAVAILABLE,
        rmq.ChannelInvalidStateError: UNAVAILABLE,
        pika.MessageProcessError: MISUNDERSTOOD,
        pika.QueueEmpty: MISUNDERSTOOD,
        amqp.PAMQPException: MISUNDERSTOOD,
        amqp.UnmarshalingException: MISUNDERSTOOD,
        amqp.AMQPError: MISUNDERSTOOD,
        amqp.AMQPSoftError: UNAVAILABLE,
        amqp.AMQPHardError: UNAVAILABLE,
        amqp.AMQPContentTooLarge: MISUNDERSTOOD,
        amqp.AMQPNoRoute: UNAVAILABLE,
        amqp.AMQPNoConsumers: UNAVAILABLE,
        amqp.AMQPAccessRefused: REFUSED,
        amqp.AMQPNotFound: MISSING,
        amqp.AMQPResourceLocked: LOCKED,
        amqp.AMQPPreconditionFailed: DIFFERENT,
        amqp.AMQPConnectionForced: UNAVAILABLE,
        amqp.AMQPInvalidPath: REFUSED,
        amqp.AMQPFrameError: MISUNDERSTOOD,
        amqp.AMQPSyntaxError: MISUNDERSTOOD,
        amqp.AMQPCommandInvalid: MISUNDERSTOOD,
        amqp.AMQPChannelError: MISUNDERSTOOD,
        amqp.AMQPUnexpectedFrame: MISUNDERSTOOD,
        amqp.AMQPResourceError: UNAVAILABLE,
        amqp.AMQPNotAllowed: REFUSED,
        amqp.AMQPNotImplemented: TOO_OLD,
        amqp.AMQPInternalError: UNAVAILABLE,
        ssl.SSLError: REFUSED,
        OSError: UNAVAILABLE,
        TimeoutError: UNAVAILABLE,
    }
)


_NOT_YET = ("down or inaccessible", "does not have a replica", "timed out", "is starting")
"""What the server says of queues that are there, but not awake: it has just started, or lost a node."""


def translate(error: BaseException, **where: str | None) -> DragomanError:
    """Our error for the driver's. What the server said is kept; it names no secrets."""
    if isinstance(error, DragomanError):
        return error
    for cls in type(error).__mro__:
        if cls in TABLE:
            said = ", ".join(str(each) for each in error.args if isinstance(each, str | int))
            asleep = any(sign in said for sign in _NOT_YET)
            kind, what, next = UNAVAILABLE if asleep else TABLE[cls]
            return kind(what, next=next, **{"reason": said or type(error).__name__, **where})
    return BrokerUnavailable(UNAVAILABLE[1], next=UNAVAILABLE[2], reason=type(error).__name__)


@contextmanager
def translated(**where: str | None) -> Iterator[None]:
    """Whatever the driver raises inside is ours outside."""
    try:
        yield
    except tuple(TABLE) as error:
        raise translate(error, **where) from error
