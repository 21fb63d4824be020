"""What the gateway says to itself and to orchestrators, signed, so that nobody else can say it.

A *stamp* takes the place of the client's token in the originator: it holds what the drop-off point found, and
only gateways have its key. A *pass* takes the place of the authorization: it is good for one resource, for a
short time, and orchestrators that have the inside key can check it. Neither lets anybody act outside.
"""

from __future__ import annotations

import binascii
import hashlib
import hmac
from typing import TypeVar

import msgspec

from dragoman.core.errors import ConfigurationError, Refused

S = TypeVar("S", bound=msgspec.Struct)

_to_json = msgspec.json.Encoder().encode

SHORTEST = 32
"""Bytes of a secret."""


class Stamp(msgspec.Struct, frozen=True, kw_only=True, array_like=True, tag="s1"):
    """What the drop-off point found when it accepted the request."""

    owner: str
    client: str
    request: str
    source: str
    resource: str
    entity: str
    level: str
    token: str
    """A keyed hash of the client's token; empty without one."""
    retain: float
    collect: str
    lease: float
    hops: int
    expires: float
    """When the request is given up, in seconds since the epoch."""


class Pass(msgspec.Struct, frozen=True, kw_only=True, array_like=True, tag="p1"):
    """Lets ``subject`` ask the resource ``audience``, on behalf of ``owner``."""

    audience: str
    subject: str
    owner: str
    expires: float


class Seal:
    """Signs and reads. Older keys are still read, so a key can be changed while messages are on their way."""

    def __init__(self, secret: bytes, *older: bytes, purpose: str) -> None:
        for each in (secret, *older):
            if len(each) < SHORTEST:
                raise ConfigurationError(
                    f"A secret of the gateway has {SHORTEST} bytes or more, this has {len(each)}.",
                    code="configuration.secret",
                    next="Make one with: openssl rand -hex 32",
                )
        self._keys = tuple(_derived(each, purpose) for each in (secret, *older))
        self._hashing = _derived(secret, "token")

    def sign(self, value: Stamp | Pass) -> str:
        body = _encode(_to_json(value))
        return f"{body}.{_mac(self._keys[0], body)}"

    def read(self, text: str, cls: type[S]) -> S:
        """Raises ``Refused`` for whatever was not signed by this gateway."""
        body, _, signature = text.rpartition(".")
        # All keys are tried, whichever fits: the time taken tells nothing.
        fits = [hmac.compare_digest(_mac(key, body), signature) for key in self._keys if text.isascii()]
        if not any(fits):
            raise Refused("The signature is not ours.", code="gateway.signature")
        try:
            return msgspec.json.decode(binascii.a2b_base64(body), type=cls)
        except (msgspec.DecodeError, binascii.Error):
            raise Refused("The signature is for something else.", code="gateway.signature") from None

    def fingerprint(self, token: str) -> str:
        """What is kept of a token: enough to know it again, useless to whoever reads it."""
        if not token:
            return ""
        raw = token.encode("utf-8", "replace")
        return hashlib.blake2b(raw, key=self._hashing, digest_size=32).hexdigest()


def same(one: str, other: str) -> bool:
    """Compared in a time that does not depend on where they differ."""
    return hmac.compare_digest(one.encode("utf-8", "replace"), other.encode("utf-8", "replace"))


def _derived(secret: bytes, purpose: str) -> bytes:
    return hmac.digest(secret, f"dragoman gateway {purpose}".encode(), "sha512")


def _mac(key: bytes, body: str) -> str:
    # BLAKE2 with a key is a MAC of its own, and quicker than HMAC.
    return _encode(hashlib.blake2b(body.encode("ascii"), key=key, digest_size=32).digest())


def _encode(raw: bytes) -> str:
    return binascii.b2a_base64(raw, newline=False).decode("ascii")
