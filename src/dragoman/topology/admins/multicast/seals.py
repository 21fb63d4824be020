"""Signatures of datagrams: without the sender's key a program cannot speak for it.

A sender whose program has an identity makes a key for itself and announces the public half. The announcement
is signed, so a datagram with a wrong signature, or none, is not the sender's. A seal stands first in a
datagram and covers all of it. It has a stamp, so that an old datagram that is sent again is known as such.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import TYPE_CHECKING

from dragoman.core.errors import ConfigurationError
from dragoman.core.extras import extra_missing
from dragoman.topology.admins.multicast.datagram import HEAD, SEAL, SIGNATURE, Datagram, head_of
from dragoman.topology.stamp import stamp_ms

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

SEAL_BYTES = HEAD.size + SIGNATURE


class Sealer:
    """The sender's side."""

    def __init__(self, clock: Callable[[], int] = stamp_ms) -> None:
        try:
            from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        except ModuleNotFoundError as error:
            raise extra_missing("Signing datagrams", "cryptography", "topology") from error
        self._clock = clock
        self._key = Ed25519PrivateKey.generate()
        self.public = base64.b64encode(self._key.public_key().public_bytes_raw()).decode()

    def __call__(self, topic: int, sender: int, data: bytes) -> bytes:
        head = head_of(SEAL, topic, sender, self._clock(), SIGNATURE)
        return head + self._key.sign(head + data) + data


class Sealed:
    """The seal that came with a datagram, checked once for all messages in it."""

    __slots__ = ("_covered", "_known", "_seal")

    def __init__(self, seal: Datagram, data: bytes) -> None:
        self._seal = seal
        self._covered = data[: HEAD.size] + data[SEAL_BYTES:]
        self._known: tuple[Ed25519PublicKey, bool] | None = None

    @property
    def stamp_ms(self) -> int:
        """When it was sealed, by the sender's clock. True once it fits."""
        return self._seal.sent_at

    def fits(self, key: Ed25519PublicKey, sender: int) -> bool:
        if self._seal.sender != sender:
            return False
        if self._known is None or self._known[0] is not key:
            self._known = key, self._verified(key)
        return self._known[1]

    def _verified(self, key: Ed25519PublicKey) -> bool:
        from cryptography.exceptions import InvalidSignature

        try:
            key.verify(self._seal.piece, self._covered)
        except InvalidSignature:
            return False
        return True


def read_key(text: str, endpoint: str) -> Ed25519PublicKey:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        return Ed25519PublicKey.from_public_bytes(base64.b64decode(text, validate=True))
    except ValueError as error:
        raise ConfigurationError(
            f"{text!r} is not the key of a sender.", code="topology.multicast-key", endpoint=endpoint
        ) from error
