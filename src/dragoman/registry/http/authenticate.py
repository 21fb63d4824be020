"""From a request's credentials to a principal: keys, passwords, and JSON Web Tokens."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import logging
import time
from collections.abc import Awaitable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from starlette.types import Scope

from dragoman.core.errors import ConfigurationError, DragomanError
from dragoman.core.extras import extra_missing
from dragoman.registry.access import Grant, Principal
from dragoman.registry.engine import Engine
from dragoman.registry.http.logins import Logins, Networks, origin_of
from dragoman.registry.keys import REGISTRY, is_generated, recognise
from dragoman.registry.model import Key
from dragoman.registry.name import ContractName
from dragoman.registry.refusals import unauthenticated
from dragoman.registry.store import keys

log = logging.getLogger("dragoman.registry")

REMEMBERED = 30.0
"""Seconds that a recognised credential is not checked again, unless keys may have changed."""
_MOST_REMEMBERED = 10_000
_ASYMMETRIC = ("RS256", "RS384", "RS512", "PS256", "ES256", "ES384", "EdDSA")
_SYMMETRIC = ("HS256", "HS384", "HS512")


@dataclass(frozen=True, slots=True)
class JwtOptions:
    """How tokens are verified. The algorithm is fixed here, whatever a token says of itself."""

    key: str
    """A public key in PEM, or for HS256 and its kin the shared secret."""
    algorithm: str
    audience: str
    issuer: str | None = None
    claim: str = "roles"
    """The claim with the grants, such as ``["read", "write:orders-"]``."""

    @classmethod
    def from_file(cls, path: str, algorithm: str, audience: str, issuer: str | None = None) -> JwtOptions:
        try:
            key = Path(path).read_text().strip()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigurationError(f"The key for tokens cannot be read: {error}.", path=path) from error
        return cls(key, algorithm, audience, issuer)

    def __post_init__(self) -> None:
        if self.algorithm not in (*_ASYMMETRIC, *_SYMMETRIC):
            raise ConfigurationError(
                f"{self.algorithm!r} is not an algorithm for tokens.",
                next=f"Use one of {', '.join((*_ASYMMETRIC, *_SYMMETRIC))}.",
            )
        if not self.audience:
            raise ConfigurationError("Tokens need an audience, or they would be good for any service.")
        if self.algorithm in _SYMMETRIC and ("PUBLIC KEY" in self.key or len(self.key) < 32):
            raise ConfigurationError(
                f"{self.algorithm} needs a shared secret of 32 characters or more, not a public key."
            )


class _Recognised(NamedTuple):
    principal: Principal
    until: float
    key: Key | None
    """As it is stored; ``None`` for a token, which cannot be revoked."""


class Authenticator:
    """Called by the gate for each request; answers at once for what it has seen lately.

    The engine announces when keys may have changed, here or on another node. What was recognised before an
    announcement counts no more until the stored key has been read again. If the key is the same, the secret,
    which may be a password, is not checked a second time.
    """

    def __init__(self, engine: Engine, jwt: JwtOptions | None = None) -> None:
        self._engine = engine
        self._jwt = _Jwt(jwt) if jwt else None
        self._keys = object()
        """Stands for the stored keys as they are. Another object replaces it when they may have changed."""
        self._known: dict[bytes, tuple[_Recognised, object]] = {}
        """Each with the ``_keys`` that it was recognised under."""
        self._logins = Logins(engine.limits)
        self._under_way: dict[bytes, asyncio.Task[Principal]] = {}
        """Credentials that are being looked up. Many connections of one client send the same at once."""
        engine.on_change(self._note)

    def __call__(self, scope: Scope) -> Principal | Awaitable[Principal]:
        header = next((value for name, value in scope["headers"] if name == b"authorization"), None)
        if header is None:
            raise unauthenticated()
        digest = hashlib.sha256(header).digest()
        known = self._known.get(digest)
        if known is not None and known[1] is self._keys and known[0].until > time.monotonic():
            return known[0].principal
        return self._shared(header, digest, origin_of(scope))

    def _note(self, name: ContractName) -> None:
        """Called from any thread, so it does no more than one assignment."""
        if name == REGISTRY:
            self._keys = object()

    async def _shared(self, header: bytes, digest: bytes, networks: Networks) -> Principal:
        task = self._under_way.get(digest)
        # One that is not done will still notice if keys have changed until now.
        if task is None or task.done():
            task = asyncio.create_task(self._look_up(header, digest, networks))
            self._under_way[digest] = task
            task.add_done_callback(partial(self._landed, digest))
        return await asyncio.shield(task)

    def _landed(self, digest: bytes, task: asyncio.Task[Principal]) -> None:
        if self._under_way.get(digest) is task:
            del self._under_way[digest]
        if not task.cancelled():
            # Its error counts as seen, even if all who waited for it are gone.
            task.exception()

    async def _look_up(self, header: bytes, digest: bytes, networks: Networks) -> Principal:
        while True:
            keys = self._keys
            found = await self._still_good(digest) or await self._check(header, networks)
            if len(self._known) >= _MOST_REMEMBERED:
                self._known.clear()
            self._known[digest] = found, keys
            if keys is self._keys:
                return found.principal

    async def _still_good(self, digest: bytes) -> _Recognised | None:
        """What is remembered, if its key is stored as it was."""
        found, _ = self._known.pop(digest, (None, None))
        if found is None or found.key is None or found.until <= time.monotonic():
            return None
        return found if await self._stored(found.key.id) == found.key else None

    async def _check(self, header: bytes, networks: Networks) -> _Recognised:
        """Who sends it, and until when that may be remembered."""
        kind, _, text = header.decode("latin-1").partition(" ")
        found: Principal | None = None
        key: Key | None = None
        seconds = REMEMBERED
        if kind.lower() == "basic":
            found, key = await self._by_key(*_basic(text), networks)
        elif kind.lower() == "bearer" and text.count(".") == 1:
            id, _, secret = text.partition(".")
            found, key = await self._by_key(id, secret, networks)
        elif kind.lower() == "bearer" and self._jwt is not None:
            found, seconds = self._jwt.principal(text.strip())
        if found is None:
            log.warning("credentials refused", extra={"kind": kind.lower()[:10]})
            raise unauthenticated()
        if key is not None and key.expires is not None:
            seconds = key.expires - time.time()
        return _Recognised(found, time.monotonic() + min(seconds, REMEMBERED), key)

    async def _by_key(self, id: str, secret: str, networks: Networks) -> tuple[Principal | None, Key | None]:
        """Generated keys wait for nothing. A password is charged before the store is asked, too."""
        if is_generated(id):
            key = await self._stored(id)
            if key is None or key.kind != "password":
                return recognise(id, key, secret), key
        async with self._logins.turn(networks) as turn:
            key = await self._stored(id)
            found = await asyncio.to_thread(recognise, id, key, secret)
            turn.good = found is not None
        return found, key

    async def _stored(self, id: str) -> Key | None:
        if len(id) > 255 or "\0" in id:
            return None
        return await self._engine.read(lambda tx: keys.by_id(tx, id))


class _Jwt:
    def __init__(self, options: JwtOptions) -> None:
        try:
            import jwt
        except ModuleNotFoundError as error:
            raise extra_missing("A registry with tokens", "pyjwt", "security") from error
        self._decode = jwt.decode
        self._errors = (jwt.PyJWTError, ValueError, TypeError)
        self._options = options

    def principal(self, token: str) -> tuple[Principal | None, float]:
        """Who the token speaks for, and for how many seconds it is still good."""
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
        except self._errors as error:
            log.warning("token refused", extra={"reason": type(error).__name__})
            return None, 0.0
        principal = Principal(str(claims["sub"]).replace("\0", "")[:200], _grants(claims.get(options.claim)))
        return principal, float(claims["exp"]) - time.time()


def _grants(claim: object) -> tuple[Grant, ...]:
    """The grants among a token's roles. Other services may have roles in the same token."""
    roles = claim.split() if isinstance(claim, str) else claim
    found = []
    for role in roles if isinstance(roles, list) else ():
        with suppress(DragomanError):
            found.append(Grant.parse(str(role)))
    return tuple(found)


def _basic(text: str) -> tuple[str, str]:
    try:
        user, separator, password = base64.b64decode(text, validate=True).decode().partition(":")
    except ValueError:
        raise unauthenticated() from None
    if not separator:
        raise unauthenticated()
    return user, password
