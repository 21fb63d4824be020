"""Where a model says that the channels of an endpoint are."""

from __future__ import annotations

from collections.abc import Iterable

from dragoman.core.errors import ConfigurationError
from dragoman.language import syntax as s
from dragoman.language.bindings import protocol_name
from dragoman.language.model import Interaction, Model

SCHEMES = {"amqp": "rabbitmq", "kafka": "kafka", "mqtt": "mqtt", "nats": "nats", "redis": "redis"}
"""The brokers of ours that speak a protocol."""
_ALIKE = {"rediss": "redis"}
"""Schemes of one broker."""
_SECURE = {
    "amqps": "tls=true",
    "mqtts": "tls=true",
    "tls": "tls=yes",
    "rediss": "tls=yes",
    "kafkas": "security.protocol=SSL",
    "kafka-secure": "security.protocol=SSL",
}
"""Locations with TLS, and the option that asks for it."""


def exposures_of(model: Model, interaction: Interaction) -> list[s.Exposure]:
    """How a channel is exposed to an endpoint: by the broker and protocol of its use, if it names them."""
    wanted = interaction.use.protocol
    return [
        exposure
        for broker, exposure in model.exposures[interaction.channel.name.text]
        if interaction.broker in (None, broker.name.text)
        and (wanted is None or protocol_name(wanted.text) == protocol_name(exposure.protocol.text))
    ]


def scheme_of_exposure(exposure: s.Exposure) -> str | None:
    return SCHEMES.get(protocol_name(exposure.protocol.text))


def is_at(model: Model, channel: s.Channel, scheme: str) -> bool:
    """Whether a channel is one for such a broker: not if the model has one, and has the channel elsewhere."""
    scheme = _ALIKE.get(scheme, scheme)
    exposed = [scheme_of_exposure(exposure) for _, exposure in model.exposures[channel.name.text]]
    here = any(scheme_of_exposure(exposure) == scheme for _, exposure in model.servers.values())
    return not exposed or not here or scheme in exposed


def url_of(exposure: s.Exposure) -> str | None:
    """Where a broker is, as its adapter wants it; nothing if we have none for the protocol."""
    scheme = scheme_of_exposure(exposure)
    before, _, place = exposure.location.value.rpartition("://")
    if scheme is None or not place:
        return None
    secure = _SECURE.get(before.lower())
    return f"{scheme}://{place}" + (f"{'&' if '?' in place else '?'}{secure}" if secure else "")


def broker_url(model: Model, interactions: Iterable[Interaction], where: str) -> str | None:
    """The first place that has the channels of all interactions, by a protocol that we speak.

    Nothing if the model names no broker. Raises ``ConfigurationError`` if no broker of it is such a place.
    """
    named = [found for each in interactions if (found := exposures_of(model, each))]
    if not named:
        return None
    places = [[url for each in exposures if (url := url_of(each)) is not None] for exposures in named]
    for url in places[0]:
        if all(url in others for others in places):
            return url
    protocols = dict.fromkeys(each.protocol.text for exposures in named for each in exposures)
    raise ConfigurationError(
        f"No one broker of the model that a client can speak to has all channels of the endpoint. "
        f"Their protocols: {', '.join(protocols)}.",
        code="client.model",
        next="Give the client a broker: Client(broker='kafka://...').",
        model=where,
    )
