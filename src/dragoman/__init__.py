"""Dragoman: typed messages over any broker, under a contract that both sides can trust.

The names below are the public interface. They are loaded when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dragoman.client.client import Client
    from dragoman.client.controller import controller
    from dragoman.client.delivery import Delivery
    from dragoman.client.endpoint import endpoint
    from dragoman.client.markers import Headers, Key, Metadata, Payload, To
    from dragoman.client.middleware.circuit_breaker import CircuitBreaker
    from dragoman.client.middleware.deduplicate import Deduplicate
    from dragoman.client.middleware.throttle import Throttle
    from dragoman.client.middleware.timeout import timeout
    from dragoman.client.options import ClientOptions, EndpointOptions, LaterOptions, RetryOptions
    from dragoman.client.outcome import DONE, Handler, Middleware, Outcome, again
    from dragoman.client.producer import Producer
    from dragoman.client.saga import Orchestrator, Saga, Step, orchestrate
    from dragoman.client.sequence.options import SequenceOptions
    from dragoman.client.transactional.outbox import Outbox
    from dragoman.core.broker import Sharing
    from dragoman.core.channel import Channel
    from dragoman.core.database import Transaction
    from dragoman.core.errors import DragomanError
    from dragoman.core.message import Message, Position
    from dragoman.schema.naming import Naming
    from dragoman.schema.records import named, record

_HOMES = {
    "Channel": "core.channel",
    "CircuitBreaker": "client.middleware.circuit_breaker",
    "Client": "client.client",
    "ClientOptions": "client.options",
    "DONE": "client.outcome",
    "Deduplicate": "client.middleware.deduplicate",
    "Delivery": "client.delivery",
    "DragomanError": "core.errors",
    "EndpointOptions": "client.options",
    "Handler": "client.outcome",
    "Headers": "client.markers",
    "Key": "client.markers",
    "LaterOptions": "client.options",
    "Message": "core.message",
    "Metadata": "client.markers",
    "Middleware": "client.outcome",
    "Naming": "schema.naming",
    "Orchestrator": "client.saga",
    "Outbox": "client.transactional.outbox",
    "Outcome": "client.outcome",
    "Payload": "client.markers",
    "Position": "core.message",
    "Producer": "client.producer",
    "RetryOptions": "client.options",
    "Saga": "client.saga",
    "SequenceOptions": "client.sequence.options",
    "Sharing": "core.broker",
    "Step": "client.saga",
    "Throttle": "client.middleware.throttle",
    "To": "client.markers",
    "Transaction": "core.database",
    "again": "client.outcome",
    "controller": "client.controller",
    "endpoint": "client.endpoint",
    "named": "schema.records",
    "orchestrate": "client.saga",
    "record": "schema.records",
    "timeout": "client.middleware.timeout",
}

__all__ = [
    "DONE",
    "Channel",
    "CircuitBreaker",
    "Client",
    "ClientOptions",
    "Deduplicate",
    "Delivery",
    "DragomanError",
    "EndpointOptions",
    "Handler",
    "Headers",
    "Key",
    "LaterOptions",
    "Message",
    "Metadata",
    "Middleware",
    "Naming",
    "Orchestrator",
    "Outbox",
    "Outcome",
    "Payload",
    "Position",
    "Producer",
    "RetryOptions",
    "Saga",
    "SequenceOptions",
    "Sharing",
    "Step",
    "Throttle",
    "To",
    "Transaction",
    "again",
    "controller",
    "endpoint",
    "named",
    "orchestrate",
    "record",
    "timeout",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'dragoman' has no attribute {name!r}")
    value = getattr(import_module(f"dragoman.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
