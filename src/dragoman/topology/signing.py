"""Entries that cannot be forged: signed with Ed25519, by programs whose identity is bound to their key."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from dragoman.core.errors import ConfigurationError, EntryRefused
from dragoman.core.extras import extra_missing

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

SIGNER = "pubsub.signer"
NONCE = "pubsub.nonce"
EPOCH = "pubsub.epoch"
SIGNATURE = "pubsub.signature"
MOST_REMEMBERED = 100_000
LONGEST_EPOCH = 19
"""Digits: it is a revision of etcd."""


def _ed25519() -> type[Ed25519PrivateKey]:
    try:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    except ModuleNotFoundError as error:
        raise extra_missing("Signing entries", "cryptography", "topology") from error
    return Ed25519PrivateKey


def new_key() -> str:
    """A private key as text, for ``Signer`` and nobody else."""
    return base64.b64encode(_ed25519().generate().private_bytes_raw()).decode()


class Signer:
    """Signs what one program announces. ``name`` is the host or service, as those who trust it know it."""

    def __init__(self, name: str, key: str) -> None:
        try:
            self._key = _ed25519().from_private_bytes(base64.b64decode(key, validate=True))
        except ValueError as error:
            raise ConfigurationError(
                "This is not a signing key.", code="topology.key", next="Make one: dragoman topology key"
            ) from error
        self.name = name
        self.nonce = secrets.token_hex(16)
        self.framework = framework_of(self._key.public_key().public_bytes_raw(), self.nonce)

    @classmethod
    def read(cls, name: str, path: str | Path) -> Signer:
        try:
            text = Path(path).read_text(encoding="ascii").strip()
        except (OSError, ValueError) as error:
            raise ConfigurationError(
                f"The signing key cannot be read: {error}",
                code="topology.key",
                next="Make one: dragoman topology key",
                file=str(path),
            ) from error
        return cls(name, text)

    @property
    def public(self) -> str:
        """What others put into their trust."""
        return base64.b64encode(self._key.public_key().public_bytes_raw()).decode()

    def sign(self, place: str, properties: Mapping[str, str], epoch: int) -> dict[str, str]:
        """The properties with a signature over them, the place where they stand, and the epoch."""
        signed = {**properties, SIGNER: self.name, NONCE: self.nonce, EPOCH: str(epoch)}
        return {**signed, SIGNATURE: base64.b64encode(self._key.sign(_text(place, signed))).decode()}


class Trust:
    """Whose entries are believed: names and their public keys."""

    def __init__(self, keys: Mapping[str, str]) -> None:
        _ed25519()
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

        self._keys: dict[str, tuple[bytes, Ed25519PublicKey]] = {}
        for name, text in keys.items():
            try:
                raw = base64.b64decode(text, validate=True)
                self._keys[name] = raw, Ed25519PublicKey.from_public_bytes(raw)
            except (ValueError, TypeError) as error:
                raise ConfigurationError(
                    f"The public key of {name!r} cannot be read.",
                    code="topology.key",
                    next="It is the text that 'dragoman topology key' prints: 32 bytes in base64.",
                ) from error
        self._epochs: dict[str, int] = {}

    @classmethod
    def read(cls, path: str | Path) -> Trust:
        """From a JSON file: names and public keys."""
        try:
            return cls(json.loads(Path(path).read_text()))
        except (OSError, ValueError, AttributeError) as error:
            raise ConfigurationError(
                f"The trusted keys cannot be read: {error}",
                code="topology.trust",
                next='Write a JSON object: {"host-a": "<public key>"}',
                file=str(path),
            ) from error

    def check(self, place: str, properties: Mapping[str, str]) -> None:
        """Raises ``EntryRefused`` when the signature, the signer or the epoch is wrong."""
        signer = properties.get(SIGNER, "")
        found = self._keys.get(signer)
        if SIGNATURE not in properties or found is None:
            what = "The entry is not signed." if SIGNATURE not in properties else f"Nobody trusts {signer!r}."
            raise _refused(what, "signer", place)
        raw, key = found
        signed = {name: value for name, value in properties.items() if name != SIGNATURE}
        self._verify(key, place, signed, properties[SIGNATURE])
        framework = properties.get("pubsub.framework.uuid", "")
        if framework != framework_of(raw, properties.get(NONCE, "")):
            raise _refused(f"{signer!r} may not speak for the program {framework!r}.", "signer", place)
        self._check_epoch(place, properties.get(EPOCH, ""))

    def _verify(self, key: Ed25519PublicKey, place: str, signed: Mapping[str, str], signature: str) -> None:
        from cryptography.exceptions import InvalidSignature

        try:
            key.verify(base64.b64decode(signature, validate=True), _text(place, signed))
        except (InvalidSignature, ValueError) as error:
            raise _refused("The signature is wrong.", "signature", place) from error

    def _check_epoch(self, place: str, text: str) -> None:
        """An entry that was seen in a newer state is not believed in an older one, also after it was gone."""
        if not text.isdecimal() or not text.isascii() or len(text) > LONGEST_EPOCH:
            raise _refused("The entry has no epoch.", "epoch", place)
        epoch = int(text)
        seen = self._remember(place, epoch)
        if epoch < seen:
            raise _refused(f"The entry is of the epoch {epoch}, {seen} was seen before.", "epoch", place)

    def _remember(self, place: str, epoch: int) -> int:
        """The newest that was seen there before."""
        seen = self._epochs.pop(place, -1)
        self._epochs[place] = max(epoch, seen)
        if len(self._epochs) > MOST_REMEMBERED:
            del self._epochs[next(iter(self._epochs))]
        return seen

    def forget_epochs(self) -> None:
        """They were those of another etcd."""
        self._epochs.clear()

    def retire(self, place: str, epoch: int) -> None:
        """The entry was taken away at this epoch: nothing signed before may come back."""
        self._remember(place, epoch)


def framework_of(public_key: bytes, nonce: str) -> str:
    """The identity of a running program: nobody without the key can take it."""
    digest = hashlib.sha256(public_key + nonce.encode()).hexdigest()
    return f"{digest[:8]}-{digest[8:12]}-{digest[12:16]}-{digest[16:20]}-{digest[20:32]}"


def _text(place: str, properties: Mapping[str, str]) -> bytes:
    canonical = json.dumps(properties, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return f"{place}\n{canonical}".encode()


def _refused(what: str, why: str, place: str) -> EntryRefused:
    return EntryRefused(
        what, code=f"topology.entry-{why}", next="Somebody else may be writing here: look who can.", key=place
    )
