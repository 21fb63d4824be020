"""The messaging gateway: a typed Python interface whose calls are messages.

    class Loans:
        @sends("loan.requests")
        async def quote(self, request: LoanRequest) -> LoanReply: ...

        @sends("loan.granted", key="customer")
        async def granted(self, event: LoanGranted) -> None: ...

    loans = gateway(Loans, client)
    reply = await loans.quote(LoanRequest(1, 10_000.0, 24))

Who uses it sees neither channels nor brokers, and can be given any other object with the same methods.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from dragoman.client.client import Client
from dragoman.client.correlation import read_correlation
from dragoman.core.channel import check_name
from dragoman.core.errors import ConfigurationError
from dragoman.schema.records import is_record

F = TypeVar("F", bound=Callable[..., Any])
G = TypeVar("G")

_MARK = "__dragoman_sends__"


@dataclass(frozen=True, slots=True)
class Sending:
    """What ``@sends`` was told."""

    channel: str
    key: str | None
    timeout: float | None
    raises: tuple[type[Exception], ...]


def sends(
    channel: str,
    *,
    key: str | None = None,
    timeout: float | None = None,
    raises: Sequence[type[Exception]] = (),
) -> Callable[[F], F]:
    """A call of this method sends its argument to a channel.

    What it returns says what is waited for: a record is a reply, an ``AsyncIterator`` of records several, and
    ``None`` nothing. ``key`` is the field of the argument that is the message's key.
    """
    check_name(channel)

    def decorate(function: F) -> F:
        setattr(function, _MARK, Sending(channel, key, timeout, tuple(raises)))
        return function

    return decorate


def gateway(interface: type[G], client: Client) -> G:
    """An object of the interface whose calls go through the client. Raises ``ConfigurationError``."""
    methods = {
        name: _method(function, mark, client)
        for name, function in inspect.getmembers(interface, inspect.isfunction)
        if isinstance(mark := getattr(function, _MARK, None), Sending)
    }
    if not methods:
        raise ConfigurationError(
            f"{interface.__qualname__} sends nothing.",
            code="configuration.gateway",
            next="Decorate its methods with @sends.",
        )
    made = type(interface.__name__, (interface,), methods)
    return typing.cast("G", made())


def _method(function: Callable[..., Any], mark: Sending, client: Client) -> Callable[..., Any]:
    hints = typing.get_type_hints(function)
    names = [name for name in inspect.signature(function).parameters if name != "self"]
    if len(names) != 1 or not is_record(hints.get(names[0])):
        raise ConfigurationError(
            f"{function.__qualname__} has to take one record, which is the message.",
            code="configuration.gateway",
        )
    reply = hints.get("return")
    stream = typing.get_origin(reply) in (AsyncIterator, AsyncGenerator)
    if stream:
        reply = typing.get_args(reply)[0]
    if reply in (None, type(None)):
        return _publishing(mark, client)
    if not is_record(reply):
        raise ConfigurationError(
            f"{function.__qualname__} returns neither a record nor nothing.",
            code="configuration.gateway",
            next="Annotate its return value with the class of the reply, or None.",
        )
    return (_streaming if stream else _requesting)(mark, client, typing.cast("type", reply))


def _publishing(mark: Sending, client: Client) -> Callable[..., Any]:
    async def publish(self: object, value: object) -> None:
        await client.publish(mark.channel, value, key=_key(mark, value))

    return publish


def _requesting(mark: Sending, client: Client, reply: type) -> Callable[..., Any]:
    async def request(self: object, value: object) -> Any:
        return await client.request(
            mark.channel,
            value,
            reply=reply,
            key=_key(mark, value),
            timeout=mark.timeout,
            raises=mark.raises,
        )

    return request


def _streaming(mark: Sending, client: Client, reply: type) -> Callable[..., Any]:
    def stream(self: object, value: object) -> AsyncGenerator[Any, None]:
        return client.request_stream(
            mark.channel,
            value,
            reply=reply,
            key=_key(mark, value),
            timeout=mark.timeout,
            raises=mark.raises,
        )

    return stream


def _key(mark: Sending, value: object) -> bytes | None:
    if mark.key is None:
        return None
    return read_correlation(f"$message.payload#/{mark.key}").in_value(value)
