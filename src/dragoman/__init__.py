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
    from dragoman.client.options import ClientOptions, EndpointOptions, LaterOptions, RetryOptions
    from dragoman.client.outcome import Handler, Middleware, Outcome
    from dragoman.client.producer import Producer
    from dragoman.core.broker import Sharing
    from dragoman.core.channel import Channel
    from dragoman.core.errors import DragomanError
    from dragoman.core.message import Message, Position
    from dragoman.schema.naming import Naming
    from dragoman.schema.records import named, record

_HOMES = {
    "Channel": "core.channel",
    "Client": "client.client",
    "ClientOptions": "client.options",
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
    "Outcome": "client.outcome",
    "Payload": "client.markers",
    "Position": "core.message",
    "Producer": "client.producer",
    "RetryOptions": "client.options",
    "Sharing": "core.broker",
    "To": "client.markers",
    "controller": "client.controller",
    "endpoint": "client.endpoint",
    "named": "schema.records",
    "record": "schema.records",
}

__all__ = [
    "Channel",
    "Client",
    "ClientOptions",
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
    "Outcome",
    "Payload",
    "Position",
    "Producer",
    "RetryOptions",
    "Sharing",
    "To",
    "controller",
    "endpoint",
    "named",
    "record",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'dragoman' has no attribute {name!r}")
    value = getattr(import_module(f"dragoman.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
