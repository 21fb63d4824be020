"""A client that is one endpoint of a model, and obeys it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Self, TypeVar

from dragoman.client.client import Client
from dragoman.client.delivery import Delivery
from dragoman.client.headers import GivenHeaders
from dragoman.client.options import ClientOptions
from dragoman.client.outcome import DONE, Handler, Middleware, Outcome
from dragoman.client.producer import Producer
from dragoman.core.broker import Broker
from dragoman.core.errors import ConfigurationError, StartupError
from dragoman.core.message import Position
from dragoman.core.registry import Registry
from dragoman.language.model import Model, load_model
from dragoman.language.running.role import Role

T = TypeVar("T")


class ModelClient(Client):
    """``Client`` with a model.

        async with ModelClient("loan-broker.mdsl", "Bank1", controllers=[Bank1]) as client:

    Entering fails with all the ways in which the controllers are not what the model says, each with its
    place. Messages that do not meet the endpoint's conditions are done with, unhandled. What is published
    expires as the model says, unless told otherwise, and only where the model lets the endpoint send.
    """

    def __init__(
        self,
        model: str | Path | Model,
        as_: str,
        broker: str | Broker | None = None,
        registry: str | Registry | None = None,
        controllers: Iterable[object] = (),
        *,
        options: ClientOptions | None = None,
        middleware: Sequence[Middleware] = (),
    ) -> None:
        self.role = Role(model if isinstance(model, Model) else load_model(Path(model)), as_)
        self._given = tuple(controllers)
        super().__init__(
            broker, registry, self._given, options=options, middleware=(self._select, *middleware)
        )

    async def __aenter__(self) -> Self:
        found = list(self.role.disagreements(self._given, self.options))
        if found:
            listed = "".join(f"\n  - {each}" for each in found)
            raise StartupError(f"The code is not what the model says:{listed}", code="client.model")
        return await super().__aenter__()

    async def _select(self, delivery: Delivery, next: Handler) -> Outcome:
        if self.role.selects(delivery.message, delivery.value):
            return await next(delivery)
        return DONE

    async def producer(self, channel: str, cls: type[T]) -> Producer[T]:
        """As the client's, where the model lets the endpoint send; else ``ConfigurationError``."""
        if self.role.sending(channel) is None:
            name = self.role.endpoint.name.text
            raise ConfigurationError(
                f"In the model, {name} does not send to {channel!r}.",
                code="client.model",
                next="Let it use or provide the channel in the model.",
                model=self.role.place(self.role.endpoint),
            )
        return await super().producer(channel, cls)

    async def publish(
        self,
        channel: str,
        value: object,
        *,
        key: Any = None,
        headers: GivenHeaders | None = None,
        partition: int | None = None,
        delay: float = 0.0,
        expires_in: float | None = None,
    ) -> Position | None:
        """As the client's; without ``expires_in`` the model's expiry holds."""
        if expires_in is None:
            expires_in = self.role.expires_in(channel)
        return await super().publish(
            channel,
            value,
            key=key,
            headers=headers,
            partition=partition,
            delay=delay,
            expires_in=expires_in,
        )
