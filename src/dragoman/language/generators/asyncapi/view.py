"""From whose side a document is written: the API's, or one endpoint's."""

from __future__ import annotations

from dataclasses import dataclass

from dragoman.core.errors import NotFound
from dragoman.language import syntax as s
from dragoman.language.model import Interaction, Model, directions
from dragoman.language.path import channel_name, path_names


@dataclass(frozen=True, slots=True)
class Exchange:
    """A message that the application of this view sends or receives."""

    channel: s.Channel
    message: s.Message
    receives: bool
    interaction: Interaction | None = None


def exchanges(model: Model, endpoint: str | None = None) -> list[Exchange]:
    """What the API exchanges, seen as the one who provides all its channels; or what an endpoint does."""
    if endpoint is None:
        return [
            Exchange(channel, message, receives)
            for channel in model.channels.values()
            for message in channel.messages
            for receives in directions(channel, message, provides=True)
        ]
    if endpoint not in model.endpoints:
        raise NotFound(
            f"The model has no message endpoint {endpoint!r}.",
            code="language.endpoint",
            next=f"It has: {', '.join(model.endpoints) or 'none'}.",
        )
    return [
        Exchange(each.channel, each.message, each.receives, each) for each in model.interactions_of(endpoint)
    ]


def address(path: s.Path) -> str:
    """The name of the channel that ``apply`` makes, with its parameters as ``{name}``."""
    return channel_name(path, {name: f"{{{name}}}" for name in path_names(path)})


def channel_id(channel: s.Channel, message: s.Message) -> str:
    """A one-way channel goes by its name, the two sides of a request-reply by their messages'."""
    return message.name.text if channel.request_reply else channel.name.text


def operation_id(exchange: Exchange) -> str:
    return ("receive" if exchange.receives else "send") + exchange.message.name.text


def other_side(exchange: Exchange) -> s.Message | None:
    """The reply to a request, the request of a reply."""
    messages = exchange.channel.messages
    if not exchange.channel.request_reply:
        return None
    return next(each for each in messages if each is not exchange.message)
