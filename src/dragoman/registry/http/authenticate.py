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
from typing import Any

from starlette.types import Scope

from dragoman.core.errors import ConfigurationError, DragomanError
from dragoman.core.extras import extra_missing
from dragoman.registry.access import Grant, Principal
from dragoman.registry.engine import Engine
from dragoman.registry.http.logins import Logins, Networks, origin_of
from dragoman.registry.keys import is_generated, recognise
from dragoman.registry.model import Key
from dragoman.registry.refusals import unauthenticated
from dragoman.registry.store import keys

log = logging.getLogger("dragoman.registry")

REMEMBERED = 30.0
"""Seconds that a recognised credential is not looked up again; also how long a revoked one may live on."""
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


class Authenticator:
    """Called by the gate for each request; answers at once for what it has seen lately."""

    def __init__(self, engine: Engine, jwt: JwtOptions | None = None) -> None:
        self._engine = engine
        self._jwt = _Jwt(jwt) if jwt else None
        self._known: dict[bytes, tuple[Principal, float]] = {}
        self._logins = Logins(engine.limits)
        self._under_way: dict[bytes, asyncio.Task[Principal]] = {}
        """Credentials that are being looked up. Many connections of one client send the same at once."""
        self._revocations = 0
        """A check that was begun before the latest one says nothing about what is good now."""

    def __call__(self, scope: Scope) -> Principal | Awaitable[Principal]:
        header = next((value for name, value in scope["headers"] if name == b"authorization"), None)
        if header is None:
            raise unauthenticated()
        digest = hashlib.sha256(header).digest()
        known = self._known.get(digest)
        if known is not None and known[1] > time.monotonic():
            return known[0]
        return self._shared(header, digest, origin_of(scope))

    def forget(self) -> None:
        """After a key was revoked. Checks that are under way are made again; no new request joins them."""
        self._revocations += 1
        self._known.clear()
        self._under_way.clear()

    async def _shared(self, header: bytes, digest: bytes, networks: Networks) -> Principal:
        task = self._under_way.get(digest)
        if task is None:
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
            revocations = self._revocations
            found, until = await self._check(header, networks)
            if revocations == self._revocations:
                break
        if len(self._known) >= _MOST_REMEMBERED:
            self._known.clear()
        self._known[digest] = (found, until)
        return found

    async def _check(self, header: bytes, networks: Networks) -> tuple[Principal, float]:
        """Who sends it, and until when that may be remembered."""
        kind, _, text = header.decode("latin-1").partition(" ")
        until = time.monotonic() + REMEMBERED
        found: Principal | None = None
        if kind.lower() == "basic":
            found = await self._by_key(*_basic(text), networks)
        elif kind.lower() == "bearer" and text.count(".") == 1:
            id, _, secret = text.partition(".")
            found = await self._by_key(id, secret, networks)
        elif kind.lower() == "bearer" and self._jwt is not None:
            found, seconds = self._jwt.principal(text.strip())
            until = min(until, time.monotonic() + seconds)
        if found is None:
            log.warning("credentials refused", extra={"kind": kind.lower()[:10]})
            raise unauthenticated()
        return found, until

    async def _by_key(self, id: str, secret: str, networks: Networks) -> Principal | None:
        """Generated keys wait for nothing. A password is charged before the store is asked, too."""
        if is_generated(id):
            key = await self._stored(id)
            if key is None or key.kind != "password":
                return recognise(id, key, secret)
        async with self._logins.turn(networks) as turn:
            key = await self._stored(id)
            found = await asyncio.to_thread(recognise, id, key, secret)
            turn.good = found is not None
        return found

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
