"""A model with its names resolved: who exposes, sends and receives what."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path as FilePath
from typing import TypeVar

from dragoman.core.errors import ConfigurationError
from dragoman.language import syntax as s
from dragoman.language.parser import Parsed, parse_strictly

M = TypeVar("M", bound=s.Node)
D = TypeVar("D", bound=s.Declaration)


@dataclass(frozen=True, slots=True)
class Interaction:
    """One message that an endpoint sends or receives, and the use of a channel that says so."""

    endpoint: s.Endpoint
    channel: s.Channel
    message: s.Message
    use: s.Use
    broker: str | None
    provides: bool
    receives: bool


class Model:
    """Built from a parsed source. Where a name is declared twice, the first one counts."""

    def __init__(self, parsed: Parsed) -> None:
        self.parsed = parsed
        self.source = parsed.source
        self.api = parsed.api
        self.types = self._named(s.DataType)
        self.channels = self._named(s.Channel)
        self.brokers = self._named(s.Broker)
        self.endpoints = self._named(s.Endpoint)
        self.endpoint_types = self._named(s.EndpointType)
        self.providers = self._named(s.Provider)
        self.flows = self._named(s.Flow)
        self.messages: dict[str, tuple[s.Channel, s.Message]] = {}
        for channel in self.channels.values():
            for message in channel.messages:
                self.messages.setdefault(message.name.text, (channel, message))
        self.events: dict[str, s.SignalType] = {}
        self.commands: dict[str, s.SignalType] = {}
        for member in self.of(s.SignalTypes):
            for each in member.types:
                (self.events if member.event else self.commands).setdefault(each.name.text, each)

    def of(self, kind: type[M]) -> Iterator[M]:
        return (member for member in self.api.members if isinstance(member, kind))

    @cached_property
    def _nodes(self) -> dict[type[s.Node], list[s.Node]]:
        found: dict[type[s.Node], list[s.Node]] = {}
        for member in self.api.members:
            for node in s.walk(member):
                found.setdefault(type(node), []).append(node)
        return found

    def nodes(self, *kinds: type[M]) -> Iterator[M]:
        """All nodes of these kinds, at any depth, kind by kind in the order of the source."""
        for kind in kinds:
            for node in self._nodes.get(kind, ()):
                if isinstance(node, kind):
                    yield node

    def exposed_by(self, exposure: s.Exposure) -> list[s.Channel]:
        """The channels behind an exposure; the API's own name means all of them."""
        found: list[s.Channel] = []
        for name in exposure.contracts:
            if name.text in self.channels:
                found.append(self.channels[name.text])
            elif name.text == self.api.name.text:
                found += self.channels.values()
        return list({channel.name.text: channel for channel in found}.values())

    @cached_property
    def exposures(self) -> dict[str, list[tuple[s.Broker, s.Exposure]]]:
        """By channel: the brokers that expose it, and how."""
        found: dict[str, list[tuple[s.Broker, s.Exposure]]] = {name: [] for name in self.channels}
        for broker in self.brokers.values():
            for exposure in broker.exposures:
                for channel in self.exposed_by(exposure):
                    found[channel.name.text].append((broker, exposure))
        return found

    @cached_property
    def servers(self) -> dict[str, tuple[s.Broker, s.Exposure]]:
        """By name: each place at which a broker exposes channels. The second and later ones are numbered."""
        found: dict[str, tuple[s.Broker, s.Exposure]] = {}
        for broker in self.brokers.values():
            for number, exposure in enumerate(broker.exposures, 1):
                found[broker.name.text + (str(number) if number > 1 else "")] = (broker, exposure)
        return found

    def used(self, use: s.Use) -> tuple[s.Channel, tuple[s.Message, ...]] | None:
        """The channel that is meant, and its messages: all, or the one that was named."""
        name = use.channel.text
        if name in self.channels:
            return self.channels[name], self.channels[name].messages
        if name in self.messages:
            channel, message = self.messages[name]
            return channel, (message,)
        return None

    @cached_property
    def interactions(self) -> tuple[Interaction, ...]:
        return tuple(each for endpoint in self.endpoints.values() for each in self._interactions(endpoint))

    @cached_property
    def interactions_by_channel(self) -> dict[str, list[Interaction]]:
        found: dict[str, list[Interaction]] = {name: [] for name in self.channels}
        for each in self.interactions:
            found[each.channel.name.text].append(each)
        return found

    @cached_property
    def _by_endpoint(self) -> dict[str, list[Interaction]]:
        found: dict[str, list[Interaction]] = {name: [] for name in self.endpoints}
        for each in self.interactions:
            found[each.endpoint.name.text].append(each)
        return found

    def interactions_of(self, endpoint: str) -> list[Interaction]:
        return self._by_endpoint.get(endpoint, [])

    def _interactions(self, endpoint: s.Endpoint) -> Iterator[Interaction]:
        providing = self._providing(endpoint)
        seen: set[tuple[str, str, bool]] = set()
        for group in endpoint.uses:
            for use in group.uses:
                found = self.used(use)
                if found is None:
                    continue
                channel, messages = found
                provides = channel.name.text in providing
                broker = group.broker.text if group.broker else None
                for message in messages:
                    for receives in directions(channel, message, provides):
                        key = (channel.name.text, message.name.text, receives)
                        if key not in seen:
                            seen.add(key)
                            yield Interaction(endpoint, channel, message, use, broker, provides, receives)

    def _providing(self, endpoint: s.Endpoint) -> set[str]:
        """The channels whose API side the endpoint is.

        Said by ``provides``, or by a condition on consuming a message that a client would only send.
        """
        found: set[str] = set()
        for group in endpoint.uses:
            for use in group.uses:
                target = self.used(use)
                if target is None:
                    continue
                channel, messages = target
                received = any(True in directions(channel, message, False) for message in messages)
                if group.provides or (use.conditions and not received):
                    found.add(channel.name.text)
        return found

    def _named(self, kind: type[D]) -> dict[str, D]:
        found: dict[str, D] = {}
        for member in self.api.members:
            if isinstance(member, kind):
                found.setdefault(member.name.text, member)
        return found


def directions(channel: s.Channel, message: s.Message, provides: bool) -> tuple[bool, ...]:
    """Whether an endpoint receives a message: ``True``, ``False``, or both.

    A channel speaks for the API: it accepts what clients send, and produces what they receive.
    """
    if channel.direction == "accepts and produces":
        return (False, True)
    towards_api = channel.direction == "accepts" or message.part == "request"
    return (towards_api == provides,)


def load_model(file: FilePath) -> Model:
    """Read a model from a file. Raises ``ConfigurationError`` if it is not there or does not parse."""
    return Model(parse_strictly(read_model(file), str(file)))


def read_model(file: FilePath) -> str:
    try:
        # Some editors on Windows put a mark in front that is no part of the text.
        return file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise ConfigurationError(
            f"The model cannot be read: {reason}.",
            code="language.file",
            file=file,
            next="Name a .mdsl file in UTF-8.",
        ) from error
