"""All errors of Dragoman.

    DragomanError
    ├── ConfigurationError          a URL, option or setting that cannot be used
    │   └── ExtraMissing            the optional package is not installed
    ├── SchemaError
    │   ├── InvalidSchema           the text is not a schema of its format
    │   └── IncompatibleSchema      refused by the contract's compatibility strategy
    ├── RegistryError
    │   ├── NotFound                no such contract, version or schema
    │   ├── Conflict                the request contradicts what is stored
    │   ├── Forbidden               credentials are missing, wrong, or not enough
    │   └── RegistryUnavailable     the registry could not be reached
    ├── MessageError                one message is at fault, others are not
    │   ├── FrameError              truncated, foreign or oversize
    │   ├── UnknownSchema           the frame names a schema id the registry does not know
    │   ├── EncodeError             the value does not fit the schema
    │   ├── DecodeError             the payload does not fit the schema
    │   ├── ConstraintViolated      the value fits the schema but not its constraints
    │   └── MessageExpired          its time had passed before it was handled
    ├── BrokerError
    │   ├── ChannelNotFound
    │   ├── BrokerUnavailable
    │   ├── Revoked                 the delivery belongs to another member by now
    │   ├── GroupTaken              the group is exclusive and has its member
    │   ├── DamagedLog              messages were accepted and cannot be read any more
    │   ├── AccessRefused           the broker does not know us, or does not let us do this
    │   └── Unsupported             the broker lacks a capability that was asked for
    ├── ClientError
    │   ├── StartupError            names every endpoint that cannot run, in one error
    │   ├── NoEndpoint              no endpoint takes this contract version
    │   ├── ReplyTimeout            nobody answered in time
    │   ├── RemoteFailure           the endpoint that was asked has failed
    │   └── ClientClosed            the client is not running, or was closed meanwhile
    ├── TopologyError
    │   ├── MultipartError          the objects of one message were not given in order
    │   ├── PublisherUnavailable    no transport takes this topic at present
    │   ├── TopologyConflict        one topic was asked for with two configurations
    │   ├── DiscoveryUnavailable    nobody can be told, and nobody found
    │   └── EntryRefused            an announcement that cannot be trusted
    └── GatewayError
        ├── InvalidEnvelope         not an envelope, or beyond the limits
        ├── Refused                 the same whatever the reason: it tells a stranger nothing
        ├── RequestFailed           an orchestrator's answer is that it cannot be done
        └── NotNow                  too much, or something is away; says when to come again

Each error has a stable ``code``, says ``where`` it happened, and what to do ``next``.
Codes are part of the public interface: they may be added, never changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from dragoman.core.contract import Incompatibility


class DragomanError(Exception):
    """The root. ``code`` is stable, ``where`` names the place, ``next`` says what to do about it."""

    code: ClassVar[str] = "dragoman"

    def __init__(self, what: str, *, next: str = "", code: str | None = None, **where: object) -> None:
        super().__init__(what)
        self.what = what
        self.next = next
        self.where: Mapping[str, object] = {name: value for name, value in where.items() if value is not None}
        if code is not None:
            self.code = code  # type: ignore[misc]

    def __str__(self) -> str:
        place = ", ".join(f"{name} {value}" for name, value in self.where.items())
        return self.what + (f" ({place})" if place else "") + (f" {self.next}" if self.next else "")

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (type(self), self.what), self.__dict__


def _rebuild(cls: type[DragomanError], what: str) -> DragomanError:
    """Without the class' own constructor, whose arguments may differ; the rest is set afterwards."""
    return cls.__new__(cls, what)


class ConfigurationError(DragomanError):
    code = "configuration"


class ExtraMissing(ConfigurationError):
    code = "configuration.extra-missing"


class SchemaError(DragomanError):
    code = "schema"


class InvalidSchema(SchemaError):
    code = "schema.invalid"


class IncompatibleSchema(SchemaError):
    code = "schema.incompatible"
    reasons: tuple[Incompatibility, ...] = ()
    """Each reason by itself, where the checker told them."""


class RegistryError(DragomanError):
    code = "registry"


class NotFound(RegistryError):
    code = "registry.not-found"


class Conflict(RegistryError):
    code = "registry.conflict"


class Forbidden(RegistryError):
    code = "registry.forbidden"


class RegistryUnavailable(RegistryError):
    code = "registry.unavailable"


class MessageError(DragomanError):
    code = "message"


class FrameError(MessageError):
    code = "message.frame"


class UnknownSchema(MessageError):
    code = "message.unknown-schema"


class EncodeError(MessageError):
    code = "message.encode"


class DecodeError(MessageError):
    code = "message.decode"


class ConstraintViolated(MessageError):
    code = "message.constraint"


class MessageExpired(MessageError):
    code = "message.expired"


class BrokerError(DragomanError):
    code = "broker"


class ChannelNotFound(BrokerError):
    code = "broker.channel-not-found"


class BrokerUnavailable(BrokerError):
    code = "broker.unavailable"


class Revoked(BrokerError):
    code = "broker.revoked"


class GroupTaken(BrokerError):
    code = "broker.group-taken"


class DamagedLog(BrokerError):
    """Messages of a partition, from ``first`` on and before ``until``, were accepted and cannot be read."""

    code = "broker.damaged"

    def __init__(
        self, first: int, until: int, *, next: str = "Restore the file from a copy.", **where: object
    ) -> None:
        super().__init__(
            f"The messages {first} to {until - 1} are damaged in the log, or missing.", next=next
        )
        self.where = {**where, "offset": first, "count": until - first}
        self.first = first
        self.until = until

    def passable(self, way: str, **where: object) -> DamagedLog:
        """The same damage, with the way past it that a reader has, and with more of the place."""
        found = DamagedLog(self.first, self.until, next=f"Restore the file from a copy, or {way}")
        found.where = {**self.where, **where}
        return found


class AccessRefused(BrokerError):
    code = "broker.access-refused"


class Unsupported(BrokerError):
    code = "broker.unsupported"


class TopologyError(DragomanError):
    code = "topology"


class MultipartError(TopologyError):
    code = "topology.multipart"


class PublisherUnavailable(TopologyError):
    code = "topology.unavailable"


class TopologyConflict(TopologyError):
    code = "topology.conflict"


class DiscoveryUnavailable(TopologyError):
    code = "topology.discovery"


class EntryRefused(TopologyError):
    code = "topology.entry-refused"


class ClientError(DragomanError):
    code = "client"


class StartupError(ClientError):
    code = "client.startup"


class NoEndpoint(ClientError):
    code = "client.no-endpoint"


class ReplyTimeout(ClientError):
    code = "client.reply-timeout"


class RemoteFailure(ClientError):
    """The answer to a request is that its endpoint failed. Asking again would have the same end."""

    code = "client.request-failed"


class ClientClosed(ClientError):
    """Says nothing about what was asked for: another client, or the same one later, may do it."""

    code = "client.closed"


class GatewayError(DragomanError):
    code = "gateway"


class InvalidEnvelope(GatewayError):
    code = "gateway.envelope"


class Refused(GatewayError):
    code = "gateway.refused"


class RequestFailed(GatewayError):
    code = "gateway.failed"


class NotNow(GatewayError):
    code = "gateway.not-now"
    retry_after: float = 1.0
    """Seconds."""
