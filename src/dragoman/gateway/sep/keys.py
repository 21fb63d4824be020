"""Keys: the server's own, and those of a session.

Who opens a session knows the server's public key beforehand, so its first datagram is sealed for that
server alone. The server answers with a key of its own for this session; from then on, what is sent cannot
be read even by who gets hold of the server's own key later.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.mlkem import MLKEM768PrivateKey, MLKEM768PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from dragoman.core.errors import ConfigurationError

_LABEL = b"SEP/1 "
_KEM_PUBLIC = 1184
_X25519 = 32


class Suite(IntEnum):
    X25519 = 1
    X25519_MLKEM768 = 2
    """Safe also against who records now and has a quantum computer later."""


class BadSeal(Exception):
    """The datagram was not sealed by who holds the keys, or was changed on its way."""


class Sealer:
    """One direction of a session."""

    def __init__(self, key: bytes) -> None:
        self._cipher = ChaCha20Poly1305(key)

    def seal(self, nonce: bytes, plain: bytes, head: bytes) -> bytes:
        return self._cipher.encrypt(nonce, plain, head)

    def open(self, nonce: bytes, sealed: bytes, head: bytes) -> bytes:
        try:
            return self._cipher.decrypt(nonce, sealed, head)
        except InvalidTag as error:
            raise BadSeal from error


@dataclass(frozen=True, slots=True)
class FirstKeys:
    """From the client's first datagram: for its first flight, and for a RETRY."""

    secret: bytes
    early: Sealer
    retry: Sealer


@dataclass(frozen=True, slots=True)
class SessionKeys:
    from_client: Sealer
    from_server: Sealer


def first_keys(shared: bytes, kem: bytes, transcript: bytes) -> FirstKeys:
    secret = _extract(_LABEL, shared + kem)
    context = hashlib.sha256(transcript).digest()
    return FirstKeys(
        secret, Sealer(_expand(secret, b"early", context)), Sealer(_expand(secret, b"retry", context))
    )


def session_keys(first: FirstKeys, shared: bytes, transcript: bytes) -> SessionKeys:
    secret = _extract(first.secret, shared)
    context = hashlib.sha256(transcript).digest()
    return SessionKeys(
        Sealer(_expand(secret, b"client", context)), Sealer(_expand(secret, b"server", context))
    )


def _extract(salt: bytes, material: bytes) -> bytes:
    return hmac.digest(salt, material, "sha256")


def _expand(secret: bytes, label: bytes, context: bytes) -> bytes:
    """One block of HKDF-Expand."""
    return hmac.digest(secret, _LABEL + label + b"\0" + context + b"\1", "sha256")


@dataclass(frozen=True, slots=True)
class PublicKey:
    """What a client has to know of its server. ``kem`` is empty for a server without ML-KEM."""

    x25519: bytes
    kem: bytes = b""

    @property
    def suite(self) -> Suite:
        return Suite.X25519_MLKEM768 if self.kem else Suite.X25519

    def text(self) -> str:
        return base64.urlsafe_b64encode(self.x25519 + self.kem).decode().rstrip("=")

    @classmethod
    def from_text(cls, text: str) -> PublicKey:
        try:
            raw = base64.urlsafe_b64decode(text.strip() + "=" * (-len(text.strip()) % 4))
        except ValueError:
            raw = b""
        if len(raw) not in (_X25519, _X25519 + _KEM_PUBLIC):
            raise ConfigurationError(
                "This is not the public key of a SEP server.",
                code="configuration.sep-key",
                next="Take the line that 'dragoman gateway sep-key' prints.",
            )
        return cls(raw[:_X25519], raw[_X25519:])


class ServerKey:
    """The server's own key pairs. Made once and kept in a file that only its owner can read."""

    def __init__(self, x25519: X25519PrivateKey, kem: MLKEM768PrivateKey | None = None) -> None:
        self._x25519 = x25519
        self._kem = kem
        self.public = PublicKey(
            x25519.public_key().public_bytes_raw(), kem.public_key().public_bytes_raw() if kem else b""
        )

    @classmethod
    def generate(cls, suite: Suite = Suite.X25519_MLKEM768) -> ServerKey:
        kem = MLKEM768PrivateKey.generate() if suite is Suite.X25519_MLKEM768 else None
        return cls(X25519PrivateKey.generate(), kem)

    def write(self, path: Path) -> None:
        stored = {"x25519": self._x25519.private_bytes_raw().hex()}
        if self._kem is not None:
            stored["mlkem768"] = self._kem.private_bytes_raw().hex()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch(0o600, exist_ok=False)
            path.write_text(json.dumps(stored))
        except OSError as error:
            raise ConfigurationError(
                f"The key cannot be written: {error.strerror}.", next="Choose another file.", file=path
            ) from error

    @classmethod
    def read(cls, path: Path) -> ServerKey:
        try:
            stored = json.loads(path.read_text())
            kem = stored.get("mlkem768")
            return cls(
                X25519PrivateKey.from_private_bytes(bytes.fromhex(stored["x25519"])),
                MLKEM768PrivateKey.from_seed_bytes(bytes.fromhex(kem)) if kem else None,
            )
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise ConfigurationError(
                "The key of the SEP server cannot be read.",
                code="configuration.sep-key",
                next="Make one: dragoman gateway sep-key FILE",
                file=path,
            ) from error

    def first_keys(self, suite: int, session: bytes, public: bytes, ciphertext: bytes) -> FirstKeys:
        """Raises ``BadSeal`` for a key that is none."""
        try:
            shared = self._x25519.exchange(X25519PublicKey.from_public_bytes(public))
            kem = b""
            if suite == Suite.X25519_MLKEM768:
                if self._kem is None:
                    raise BadSeal
                kem = self._kem.decapsulate(ciphertext)
        except ValueError as error:
            raise BadSeal from error
        return first_keys(shared, kem, session + public + ciphertext + self.public.x25519 + self.public.kem)


class Opening:
    """The client's side of the key exchange: made anew for every session."""

    def __init__(self, server: PublicKey, session: bytes) -> None:
        self._key = X25519PrivateKey.generate()
        self._session = session
        self.suite = server.suite
        self.public = self._key.public_key().public_bytes_raw()
        shared = self._key.exchange(X25519PublicKey.from_public_bytes(server.x25519))
        kem, self.ciphertext = b"", b""
        if server.kem:
            kem, self.ciphertext = MLKEM768PublicKey.from_public_bytes(server.kem).encapsulate()
        self.first = first_keys(
            shared, kem, session + self.public + self.ciphertext + server.x25519 + server.kem
        )

    def accepted(self, public: bytes) -> SessionKeys:
        """The session's keys, given the key that the server made for it."""
        try:
            shared = self._key.exchange(X25519PublicKey.from_public_bytes(public))
        except ValueError as error:
            raise BadSeal from error
        return session_keys(self.first, shared, self._session + self.public + public)


def accept(first: FirstKeys, session: bytes, public: bytes) -> tuple[bytes, SessionKeys]:
    """The server's answer to an opening: its key for this session, and the session's keys."""
    own = X25519PrivateKey.generate()
    own_public = own.public_key().public_bytes_raw()
    shared = own.exchange(X25519PublicKey.from_public_bytes(public))
    return own_public, session_keys(first, shared, session + public + own_public)
