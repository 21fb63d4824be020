"""The envelope as it goes inside: the gateway's words in the place of the client's tokens."""

from __future__ import annotations

from typing import NamedTuple

from msgspec.structs import replace

from dragoman.gateway.envelope.model import Envelope
from dragoman.gateway.options import GatewayOptions
from dragoman.gateway.policy import Lifetimes, Rule
from dragoman.gateway.security.level import Level
from dragoman.gateway.security.passes import Passes
from dragoman.gateway.security.principal import Principal
from dragoman.gateway.security.seal import Seal, Stamp


class Admission(NamedTuple):
    """Who was let in, by which rule, and at which level the response is kept."""

    principal: Principal
    rule: Rule
    level: Level


class Stamper:
    def __init__(self, options: GatewayOptions) -> None:
        self._seal = Seal(options.secret, *options.older_secrets, purpose="stamp")
        inside = options.inside_secret
        self._passes = None if inside is None else Passes(inside)

    def __call__(
        self, envelope: Envelope, admission: Admission, lifetimes: Lifetimes, now: float
    ) -> Envelope:
        client, originator = envelope.client, envelope.originator
        stamp = self._stamp(envelope, admission, lifetimes, now)
        shown = ""
        if self._passes is not None:
            shown = self._passes.issue(
                stamp.resource, client.source_endpoint, stamp.owner, lifetimes.expires_in
            )
        return replace(
            envelope,
            client=replace(client, authorization=shown),
            originator=replace(originator, original_token=self._seal.sign(stamp)),
        )

    def _stamp(self, envelope: Envelope, admission: Admission, lifetimes: Lifetimes, now: float) -> Stamp:
        principal, rule, level = admission
        client, destination = envelope.client, envelope.destination
        return Stamp(
            owner=principal.owner,
            client=client.client_id,
            request=client.request_id,
            source=envelope.originator.source_endpoint,
            resource=destination.resource,
            entity=destination.entity or "",
            level=level.name,
            token=self._seal.fingerprint(client.authorization),
            retain=lifetimes.retain,
            collect=rule.collect.value,
            lease=rule.lease,
            hops=lifetimes.hops,
            expires=now + lifetimes.expires_in,
        )
