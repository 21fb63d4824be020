"""Passes: what lets one service inside ask another, good for that one and for a short time."""

from __future__ import annotations

import time

from dragoman.core.errors import Refused
from dragoman.gateway.envelope.model import Envelope
from dragoman.gateway.security.seal import Pass, Seal

SECONDS = 300.0


class Passes:
    """Made with the inside secret, which gateways and orchestrators share."""

    def __init__(self, secret: bytes, *older: bytes) -> None:
        self._seal = Seal(secret, *older, purpose="pass")

    def issue(self, audience: str, subject: str, owner: str, seconds: float = SECONDS) -> str:
        return self._seal.sign(
            Pass(audience=audience, subject=subject, owner=owner, expires=time.time() + seconds)
        )

    def check(self, envelope: Envelope, audience: str) -> Pass:
        """Raises ``Refused`` for a pass that is forged, over, or for somebody else."""
        found = self._seal.read(envelope.client.authorization, Pass)
        if found.audience != audience or found.expires <= time.time():
            raise Refused("The pass is over, or for somebody else.", code="gateway.pass")
        return found
