"""Who may do what: roles per contract prefix."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from dragoman.core.errors import ConfigurationError, Forbidden
from dragoman.registry.name import DEFAULT_CONTEXT, ContractName
from dragoman.schema.naming import Naming, part_of


class Role(IntEnum):
    """Each includes the ones before it."""

    READ = 1
    WRITE = 2
    """Register, bind, and hide versions."""
    ADMIN = 3
    """Settings, modes, permanent deletion, keys, history of all."""

    @classmethod
    def named(cls, text: str) -> Role:
        try:
            return cls[text.upper()]
        except KeyError:
            raise ConfigurationError(
                f"{text!r} is not a role.",
                code="registry.invalid.role",
                next="There are read, write and admin.",
            ) from None


@dataclass(frozen=True, slots=True)
class Grant:
    """A role for all contracts whose name starts with the prefix; an empty prefix means all there are."""

    role: Role
    prefix: str = ""

    @classmethod
    def parse(cls, text: str) -> Grant:
        """``read``, or ``write:orders-`` for a prefix."""
        role, colon, prefix = text.partition(":")
        if colon and not prefix:
            raise ConfigurationError(
                f"The grant {text!r} has no prefix after its colon.",
                code="registry.invalid.role",
                next=f"Write {role}:PREFIX, or {role} alone for all contracts.",
            )
        return cls(Role.named(role), prefix)

    def __str__(self) -> str:
        role = self.role.name.lower()
        return f"{role}:{self.prefix}" if self.prefix else role


@dataclass(frozen=True, slots=True)
class Principal:
    """Somebody who was recognised, with what was granted."""

    name: str
    grants: tuple[Grant, ...]

    def may(self, role: Role, contract: ContractName | str | None = None) -> bool:
        """Without a contract: whether the role is held for all contracts there are."""
        name = "" if contract is None else str(contract)
        return any(grant.role >= role and name.startswith(grant.prefix) for grant in self.grants)

    def require(self, role: Role, contract: ContractName | str | None = None) -> None:
        if not self.may(role, contract):
            raise Forbidden(
                f"{self.name} lacks the role {role.name.lower()} for {_place(contract)}.",
                next="Ask an administrator for a key with that role.",
            )


def _place(contract: ContractName | str | None) -> str:
    if contract is None:
        return "all contracts"
    if isinstance(contract, ContractName) and not contract.contract:
        return f"all contracts of the context '{contract.context}'"
    return f"'{contract}'"


def own_contract(channel: str, contract: ContractName) -> ContractName:
    """The contract that a channel has by its own name, for the part that ``contract`` describes.

    A binding acts in place of this contract: clients of the channel use the bound contract instead of it. So
    a change of a binding needs the right to both. Channels have no contexts, a binding in any context is seen
    by all clients of the channel.
    """
    if part_of(contract.contract) == "key":
        return ContractName(DEFAULT_CONTEXT, Naming.CHANNEL.for_key(channel, ""))
    return ContractName(DEFAULT_CONTEXT, Naming.CHANNEL.for_value(channel, ""))


ANONYMOUS = Principal("anonymous", ())
"""Probes on a server that asks for credentials. Nothing is granted."""

EVERYBODY = Principal("anonymous", (Grant(Role.ADMIN),))
"""Whoever comes, on a server that asks for no credentials."""
