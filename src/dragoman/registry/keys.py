"""Making and checking secrets: generated keys and chosen passwords. Only hashes are stored.

A generated key has 256 random bits, so one round of SHA-256 protects it; a password gets scrypt.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import time
from typing import NamedTuple

from dragoman.core.database import Transaction
from dragoman.core.errors import ConfigurationError, Conflict, NotFound
from dragoman.registry.access import Grant, Principal
from dragoman.registry.model import Key
from dragoman.registry.name import DEFAULT_CONTEXT, ContractName
from dragoman.registry.store import history, keys

_N, _R, _P = 2**14, 8, 1
_SHORTEST_PASSWORD = 8
_PREFIX = "dk_"
"""How the ids of generated keys start."""

REGISTRY = ContractName(DEFAULT_CONTEXT, "")
"""What the history says of changes that concern no contract."""


class NewKey(NamedTuple):
    """Shown once: ``id`` and ``secret`` serve as user and password, ``token`` as bearer token."""

    id: str
    secret: str

    @property
    def token(self) -> str:
        return f"{self.id}.{self.secret}"


def create_key(
    tx: Transaction, owner: str, grants: tuple[Grant, ...], *, expires: float | None = None, author: str
) -> NewKey:
    made = NewKey(_PREFIX + secrets.token_hex(8), secrets.token_urlsafe(32))
    _store(tx, Key(made.id, "key", owner, _digest(made.secret), grants, expires=expires), author)
    return made


def create_password(
    tx: Transaction, user: str, password: str, grants: tuple[Grant, ...], *, author: str
) -> None:
    if len(password) < _SHORTEST_PASSWORD:
        raise ConfigurationError(
            f"A password has at least {_SHORTEST_PASSWORD} characters.", code="registry.invalid.password"
        )
    if keys.by_id(tx, user) is not None:
        raise Conflict(f"There is a user {user!r} already.", next="Revoke it first.")
    _store(tx, Key(user, "password", user, _stretched(password), grants), author)


def _store(tx: Transaction, key: Key, author: str) -> None:
    if not key.owner.isprintable() or not 1 <= len(key.owner) <= 200 or ":" in key.id:
        raise ConfigurationError(
            f"{key.owner!r} cannot own a key.",
            code="registry.invalid.owner",
            next="Use 1 to 200 characters, for a user without a colon.",
        )
    if not key.grants:
        raise ConfigurationError(
            "A key grants something.", code="registry.invalid.role", next="For example: read, write:orders-"
        )
    keys.insert(tx, key)
    grants = [str(grant) for grant in key.grants]
    history.record(
        tx, author, "key-created", REGISTRY, None, {"key": key.id, "owner": key.owner, "grants": grants}
    )


def revoke(tx: Transaction, id: str, *, author: str) -> None:
    if not keys.delete(tx, id):
        raise NotFound(f"There is no key {id!r}.", code="registry.not-found.key")
    history.record(tx, author, "key-revoked", REGISTRY, None, {"key": id})


def is_generated(id: str) -> bool:
    """Whether this is the id of a generated key, as far as the id tells. Checking it takes no time."""
    return id.startswith(_PREFIX)


def recognise(id: str, key: Key | None, secret: str) -> Principal | None:
    """Who holds this secret. Takes as long for an unknown user as for a wrong password."""
    if key is None:
        matches(_NO_KEY if is_generated(id) else _NOBODY, secret)
        return None
    expired = key.expires is not None and key.expires <= time.time()
    if not matches(key.secret, secret) or expired:
        return None
    return Principal(key.owner, key.grants)


def matches(stored: str, secret: str) -> bool:
    kind, _, rest = stored.partition("$")
    if kind == "sha256":
        return hmac.compare_digest(_digest(secret), stored)
    salt, _, expected = rest.partition("$")
    return hmac.compare_digest(_scrypt(secret, base64.b64decode(salt)), base64.b64decode(expected))


def _digest(secret: str) -> str:
    return "sha256$" + hashlib.sha256(secret.encode()).hexdigest()


def _stretched(password: str) -> str:
    salt = secrets.token_bytes(16)
    return "$".join(("scrypt", _text(salt), _text(_scrypt(password, salt))))


def _scrypt(password: str, salt: bytes) -> bytes:
    return hashlib.scrypt(password.encode(), salt=salt, n=_N, r=_R, p=_P)


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


_NOBODY = _stretched(secrets.token_urlsafe(16))
_NO_KEY = _digest(secrets.token_urlsafe(16))
