"""Somebody who was recognised by a token or a key, or nobody in particular."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Principal:
    """``owner`` owns requests and their responses. It is empty for whoever shows nothing."""

    owner: str
    client: str | None = None
    """The only client id that may be used, where the credential names one."""
    expires: float | None = None
    """When the credential ends, in seconds since the epoch."""
    resources: tuple[str, ...] = ()
    """The only resources that may be asked, if any are named."""

    @property
    def known(self) -> bool:
        return bool(self.owner)

    def may_be(self, client: str) -> bool:
        return self.client is None or self.client == client

    def may_ask(self, resource: str) -> bool:
        return not self.resources or resource in self.resources


ANONYMOUS = Principal("")
