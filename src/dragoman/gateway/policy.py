"""Which destinations can be reached from outside, and on what terms. Everything else is refused."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from dragoman.core.channel import check_name
from dragoman.core.errors import ConfigurationError, InvalidEnvelope
from dragoman.gateway.envelope.method import Method
from dragoman.gateway.envelope.model import Destination
from dragoman.gateway.store.port import Collect

REQUESTS = frozenset(each for each in Method if each.is_request)


class Ttl(StrEnum):
    """What the number ``messageTTL`` means in this deployment. The others come from the rule."""

    RETENTION = "retention"
    """Seconds that the response is kept."""
    EXPIRY = "expiry"
    """Seconds until a request that nobody has handled is given up."""
    HOPS = "hops"
    """How often the request may be forwarded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A public destination. What a client asks for can lower these numbers, never raise them."""

    resource: str
    """Also the name of the channel that its orchestrator reads."""
    entity: str | None = None
    """``None``: every entity that has no rule of its own."""
    methods: frozenset[Method] = REQUESTS
    versions: frozenset[str] | None = None
    level: str = "authorized"
    """The floor: a client may ask for a higher level of security, not for a lower one."""
    retain: float = 300.0
    expires: float = 300.0
    hops: int = 16
    collect: Collect = Collect.LEASE
    lease: float = 30.0

    def __post_init__(self) -> None:
        check_name(self.resource)
        if not self.methods or not self.methods <= REQUESTS:
            raise ConfigurationError(
                "A rule allows requests only.",
                next=f"Use some of {', '.join(sorted(REQUESTS))}.",
                resource=self.resource,
            )
        for name in ("retain", "expires", "hops", "lease"):
            if not 0 < getattr(self, name) < float("inf"):
                raise ConfigurationError(f"{name} is a number above zero.", resource=self.resource)

    def allows(self, destination: Destination) -> bool:
        return destination.intent in self.methods and (
            self.versions is None or destination.version in self.versions
        )


@dataclass(frozen=True, slots=True)
class Lifetimes:
    """Seconds and hops told apart."""

    expires_in: float
    retain: float
    hops: int


@dataclass(frozen=True, slots=True)
class Policy:
    rules: tuple[Rule, ...]
    ttl: Ttl = Ttl.RETENTION
    _by_destination: dict[tuple[str, str], Rule] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        found: dict[tuple[str, str], Rule] = {}
        for rule in self.rules:
            if (rule.resource, rule.entity or "") in found:
                raise ConfigurationError(
                    "There are two rules for one destination.", resource=rule.resource, entity=rule.entity
                )
            found[rule.resource, rule.entity or ""] = rule
        object.__setattr__(self, "_by_destination", found)

    def find(self, destination: Destination) -> Rule | None:
        """The rule that lets this pass from outside."""
        rules, resource = self._by_destination, destination.resource
        rule = rules.get((resource, destination.entity or "")) or rules.get((resource, ""))
        return rule if rule is not None and rule.allows(destination) else None

    @property
    def resources(self) -> Iterable[str]:
        return dict.fromkeys(rule.resource for rule in self.rules)

    def lifetimes(self, rule: Rule, ttl: int | None) -> Lifetimes:
        """The rule's own, one of them lowered by ``messageTTL``."""
        expires, retain, hops = rule.expires, rule.retain, rule.hops
        if ttl is not None:
            if ttl < 1:
                raise InvalidEnvelope(
                    "A messageTTL of 0 leaves no time at all.",
                    code="gateway.envelope.ttl",
                    next="Use a number above zero, or null.",
                )
            match self.ttl:
                case Ttl.RETENTION:
                    retain = min(retain, ttl)
                case Ttl.EXPIRY:
                    expires = min(expires, ttl)
                case Ttl.HOPS:
                    hops = min(hops, ttl)
        return Lifetimes(expires, retain, hops)
