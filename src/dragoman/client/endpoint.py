"""``@endpoint``: a function or method that is given the messages of a channel."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import NoneType
from typing import Any, TypeVar, get_args, get_origin

from dragoman.client.arguments import layers, require, several
from dragoman.client.correlation import Correlation, read_correlation
from dragoman.client.options import EndpointOptions
from dragoman.client.outcome import Middleware
from dragoman.client.parameters import Hints, Kind, Parameter, alternatives, hints_of, unwrapped
from dragoman.client.selection import Selection
from dragoman.core.broker import Sharing, Start, Subscription
from dragoman.core.channel import check_name
from dragoman.schema.records import is_record

F = TypeVar("F", bound=Callable[..., Any])

_MARK = "__dragoman_endpoint__"
_STREAMS = (AsyncIterator, AsyncIterable, AsyncGenerator)


@dataclass(frozen=True, slots=True)
class EndpointMark:
    """What ``@endpoint`` was told."""

    channel: str
    reply_to: str | None
    group: str | None
    options: EndpointOptions | None
    middleware: tuple[Middleware, ...]
    hints: Hints | None
    raises: tuple[type[Exception], ...] = ()
    correlation: Correlation | None = None
    identity: Correlation | None = None
    transactional: bool = False
    subscription: Mapping[str, Any] = field(default_factory=dict)
    """``sharing``, ``durable`` and ``start`` as far as they were given: they go before the options."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An endpoint in one client, with everything that it inherits from its controller and the client."""

    name: str
    channel: str
    group: str
    reply_to: str | None
    reply: type | None
    """The record class of the return value, which is the reply."""
    options: EndpointOptions
    middleware: tuple[Middleware, ...]
    function: Callable[..., Any]
    parameters: tuple[Parameter, ...]
    raises: tuple[type[Exception], ...] = ()
    """Error records that are answers: they are sent to the requester, and raised there again."""
    correlation: Correlation | None = None
    identity: Correlation | None = None
    """What tells its messages apart, beside their ids and positions."""
    transactional: bool = False
    """What it publishes, its reply and the acknowledgement are one transaction of the broker."""
    silent: bool = True
    """It says that it may return nothing; then nobody is answered."""
    reply_expires_in: float | None = None
    """Seconds after which its reply is of no use any more."""
    reply_named: bool = False
    """Whether its reply has a message id also where the broker can do without."""
    selection: Selection | None = None
    """Which messages it is for, if a model says so."""
    chose_group: bool = True
    """Whether a group was named for it. Otherwise it is in the one of all who name none."""

    @property
    def payload(self) -> Parameter:
        return next(each for each in self.parameters if each.kind is Kind.PAYLOAD)

    @property
    def batch(self) -> bool:
        """Whether it takes many messages at once."""
        return self.payload.many

    @property
    def key(self) -> Parameter | None:
        return next((each for each in self.parameters if each.kind is Kind.KEY), None)

    @property
    def transaction(self) -> Parameter | None:
        """The parameter that is given a database transaction."""
        return next((each for each in self.parameters if each.kind is Kind.TRANSACTION), None)

    @property
    def reply_contract_channel(self) -> str:
        """The channel under whose contract replies are written, wherever they are sent."""
        return self.reply_to or f"{self.channel}.reply"

    def error_contract_channel(self, error: type[Exception]) -> str:
        """The channel under whose contract a declared error is written: each has its own."""
        return f"{self.reply_contract_channel}.{error.__name__}"


def endpoint(
    channel: str,
    *,
    reply_to: str | None = None,
    group: str | None = None,
    options: EndpointOptions | None = None,
    middleware: Sequence[Middleware] = (),
    raises: Sequence[type[Exception]] = (),
    correlation: str | None = None,
    identity: str | None = None,
    transactional: bool = False,
    sharing: Sharing | None = None,
    durable: bool | None = None,
    start: Start | None = None,
) -> Callable[[F], F]:
    """Give this function the messages of a channel.

    Its parameters say by their types what they want: a record class is the payload; see
    ``dragoman.client.markers`` for the rest. A returned record is the reply. ``async def`` runs in the event
    loop, plain ``def`` in a thread. An ``async def`` that yields records sends each as a reply. ``raises``
    are exception classes that are records, too: who asked has them raised again. ``correlation`` is where
    requests and replies carry the same, such as ``$message.payload#/request_id``. ``group`` is for
    functions; methods have their controller's. ``sharing``, ``durable`` and ``start`` go before the options
    of the same name. An endpoint that is not durable, and for which nobody names a group, has one of its own
    in each client, so each client gets every message.
    """
    check_name(channel)
    require("The options of an endpoint", options, EndpointOptions, NoneType)
    around, declared = layers(middleware), several("raises", raises)
    if reply_to is not None:
        check_name(reply_to)
    place = None if correlation is None else read_correlation(correlation)
    told_apart = None if identity is None else read_correlation(identity)
    given = {"sharing": sharing, "durable": durable, "start": start}
    # A class or function body's own names are gone later, so they are looked up while it is being run.
    inner = sys._getframe(1)
    scopes = {**(inner.f_back.f_locals if inner.f_back else {}), **inner.f_locals}

    def decorate(function: F) -> F:
        mark = EndpointMark(
            channel,
            reply_to,
            group,
            options,
            around,
            hints_of(function, scopes),
            declared,
            place,
            told_apart,
            transactional,
            {name: value for name, value in given.items() if value is not None},
        )
        setattr(function, _MARK, mark)
        return function

    return decorate


def subscription_of(endpoint: Endpoint, channels: tuple[str, ...], member: str) -> Subscription:
    """How a client joins the group of this endpoint."""
    options = endpoint.options
    return Subscription(
        channels,
        endpoint.group,
        start=options.start,
        member=member,
        sharing=options.sharing,
        durable=options.durable,
    )


def mark_of(function: object) -> EndpointMark | None:
    found = getattr(function, _MARK, None)
    return found if isinstance(found, EndpointMark) else None


def reply_class(hints: Hints | None) -> type | None:
    """The record class that a function returns, if it returns one."""
    plain, _ = unwrapped((hints or {}).get("return"))
    if get_origin(plain) in _STREAMS:
        plain, _ = unwrapped(get_args(plain)[0])
    classes, _ = alternatives(plain)
    return next((each for each in classes if is_record(each)), None)


def may_be_silent(hints: Hints | None) -> bool:
    """Whether a function says that it may return ``None``, or does not say that it never does."""
    plain, _ = unwrapped((hints or {}).get("return"))
    classes, optional = alternatives(plain)
    return optional or not all(is_record(each) for each in classes)
