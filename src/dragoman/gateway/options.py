"""All options of a gateway, each declared once."""

from __future__ import annotations

from dataclasses import dataclass, field

from dragoman.core.channel import check_name
from dragoman.core.errors import ConfigurationError
from dragoman.gateway.limits import EnvelopeLimits
from dragoman.gateway.policy import Policy
from dragoman.gateway.rates import Rate
from dragoman.gateway.security.level import Levels
from dragoman.gateway.store.opening import DEFAULT
from dragoman.registry.http.authenticate import JwtOptions

_ABOVE_ZERO = ("replay_window", "longest_memory", "waiting_quota", "most_waiting", "forward_timeout")


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayOptions:
    policy: Policy
    secret: bytes
    """Signs stamps. All gateways of one store have the same one, and nobody else has it."""
    older_secrets: tuple[bytes, ...] = ()
    inside_secret: bytes | None = None
    """Signs passes, which orchestrators that have it check. Without it requests go inside without one."""
    store: str = DEFAULT
    broker: str | None = None
    registry: str | None = None
    collection_point: str = "service.collection"
    """The resource, and so the channel, that responses are sent to."""
    group: str = "collection-point"
    jwt: JwtOptions | None = None
    levels: Levels = field(default_factory=Levels)
    limits: EnvelopeLimits = field(default_factory=EnvelopeLimits)
    replay_window: float = 300.0
    """Seconds that a request's timestamp may lie in the past. Its id is remembered for longer."""
    skew: float = 60.0
    """Seconds that a timestamp may lie in the future."""
    longest_memory: float = 3600.0
    """Seconds. Without a timestamp a request needs a token that ends within them, when it is forgotten."""
    owner_rate: Rate | None = None
    peer_rate: Rate | None = None
    """By address, before anything else is looked at."""
    waiting_quota: int = 10_000
    """Responses that may wait for one owner; then no request is accepted until some are collected."""
    longest_wait: float = 30.0
    """Seconds that a collection may wait for the response."""
    most_waiting: int = 20_000
    """Collections that may wait at once."""
    forward_timeout: float = 10.0
    """Seconds that the broker has to take a request."""
    audit: str | None = None
    """A file for the audit; without it, the log."""

    def __post_init__(self) -> None:
        check_name(self.collection_point)
        if self.collection_point in self.policy.resources:
            raise ConfigurationError(
                "The collection point cannot be a public destination: responses come from inside only.",
                resource=self.collection_point,
            )
        for rule in self.policy.rules:
            self.levels.require(rule.level)
        for name in _ABOVE_ZERO:
            if not 0 < getattr(self, name) < float("inf"):
                raise ConfigurationError(f"{name} is a number above zero.")
        for name in ("skew", "longest_wait"):
            if not 0 <= getattr(self, name) < float("inf"):
                raise ConfigurationError(f"{name} is a number of seconds.")
        if self.inside_secret is not None and self.inside_secret == self.secret:
            raise ConfigurationError(
                "The inside secret is the gateway's own.", next="Orchestrators must not know that: use two."
            )
