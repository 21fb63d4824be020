"""API keys for back ends: made once, shown once, kept as a hash."""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Sequence

from dragoman.core.errors import ConfigurationError
from dragoman.gateway.security.seal import same
from dragoman.gateway.store.port import Store, StoredKey

PREFIX = "gk_"
_LONGEST_OWNER = 200


async def create_key(
    store: Store, owner: str, *, resources: Sequence[str] = (), seconds: float | None = None
) -> str:
    """The key: it cannot be shown again. With ``resources`` it is good for those only."""
    if not owner or len(owner) > _LONGEST_OWNER or not owner.isprintable():
        raise ConfigurationError(
            f"{owner!r} cannot own a key.", next=f"Use 1 to {_LONGEST_OWNER} characters that can be printed."
        )
    if seconds is not None and not 0 < seconds < float("inf"):
        raise ConfigurationError("A key lives for more than no time.", code="configuration.lifetime")
    id, secret, now = PREFIX + secrets.token_hex(8), secrets.token_urlsafe(32), time.time()
    expires = None if seconds is None else now + seconds
    await store.add_key(StoredKey(id, owner, hashed(secret), tuple(resources), now, expires))
    return f"{id}.{secret}"


def hashed(secret: str) -> str:
    """A generated secret has 256 random bits, so one round protects it."""
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()


def fits(key: StoredKey | None, secret: str, now: float) -> bool:
    """Takes as long for a key that does not exist."""
    right = same(hashed(secret), _NOBODY if key is None else key.secret)
    return right and key is not None and (key.expires is None or key.expires > now)


_NOBODY = hashed(secrets.token_urlsafe(32))
