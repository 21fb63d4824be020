"""From what an envelope shows as authorization to a principal: API keys, and JSON Web Tokens."""

from __future__ import annotations

import hashlib
import logging
import secrets
import time
from collections.abc import Mapping
from typing import Any

from dragoman.core.errors import Refused
from dragoman.core.extras import extra_missing
from dragoman.gateway.security.keys import PREFIX, fits
from dragoman.gateway.security.principal import ANONYMOUS, Principal
from dragoman.gateway.store.port import Store
from dragoman.registry.http.authenticate import JwtOptions

log = logging.getLogger("dragoman.gateway")

REMEMBERED = 30.0
"""Seconds that a token is not checked again. Keys are looked up each time, for they can be revoked."""
_MOST_REMEMBERED = 10_000
_LONGEST = 8 * 1024
_CLIENT_CLAIM = "client_id"


def refusal() -> Refused:
    """The one refusal. Whether destination, credential or level was wrong, it says the same."""
    return Refused(
        "The request is refused.",
        next="Check destination and credentials; the gateway does not tell strangers which it was.",
    )


class Credentials:
    """Recognises callers. Tokens seen lately, which it remembers as a hash, are answered from memory."""

    def __init__(self, store: Store, jwt: JwtOptions | None = None) -> None:
        self._store = store
        self._tokens = None if jwt is None else _Tokens(jwt)
        self._known: dict[bytes, tuple[Principal, float]] = {}
        self._hashing = secrets.token_bytes(32)

    async def identify(self, authorization: str) -> Principal:
        """Nobody in particular for an empty text. Raises ``Refused`` for a credential that is not good."""
        if not authorization:
            return ANONYMOUS
        if len(authorization) > _LONGEST:
            raise refusal()
        text = authorization.removeprefix("Bearer ").strip()
        if text.startswith(PREFIX):
            return await self._key(text)
        raw = authorization.encode("utf-8", "replace")
        digest = hashlib.blake2b(raw, key=self._hashing, digest_size=32).digest()
        now = time.time()
        known = self._known.get(digest)
        if known is not None and known[1] > now:
            return known[0]
        found = None if self._tokens is None else self._tokens.principal(text)
        if found is None:
            raise _refused("token")
        if len(self._known) >= _MOST_REMEMBERED:
            self._known.clear()
        until = min(now + REMEMBERED, found.expires or float("inf"))
        self._known[digest] = (found, until)
        return found

    async def _key(self, text: str) -> Principal:
        """From the store, whenever it is shown: once a key is revoked, no gateway takes it any more."""
        id, _, secret = text.partition(".")
        key = await self._store.key(id) if id.isascii() and id.isprintable() and len(id) < 64 else None
        good = fits(key, secret, time.time())
        if key is None or not good:
            raise _refused("key")
        return Principal(key.owner, None, key.expires, key.resources)


def _refused(kind: str) -> Refused:
    log.info("A credential was refused.", extra={"kind": kind})
    return refusal()


class _Tokens:
    """One algorithm, one audience, whatever a token says of itself."""

    def __init__(self, options: JwtOptions) -> None:
        try:
            import jwt
        except ModuleNotFoundError as error:
            raise extra_missing("A gateway with tokens", "pyjwt", "gateway") from error
        self._decode = jwt.decode
        self._errors = (jwt.PyJWTError, ValueError, TypeError)
        self._options = options

    def principal(self, token: str) -> Principal | None:
        options = self._options
        try:
            claims: Mapping[str, Any] = self._decode(
                token,
                options.key,
                algorithms=[options.algorithm],
                audience=options.audience,
                issuer=options.issuer,
                options={"require": ["exp", "aud", "sub"]},
            )
            owner, expires = str(claims["sub"]), float(claims["exp"])
        except self._errors as error:
            log.info("A token was refused.", extra={"reason": type(error).__name__})
            return None
        if not owner or len(owner) > 200 or not owner.isprintable():
            return None
        client = claims.get(_CLIENT_CLAIM)
        return Principal(owner, None if client is None else str(client), expires)
