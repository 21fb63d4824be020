"""NATS servers with a configuration of their own, and the keys they know."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nkeys

from tests.services.fixtures import missing
from tests.services.nats import Nats
from tests.services.server import ServiceUnavailable


class OwnNats(Nats):
    lines: tuple[str, ...] = ()
    jetstream = True

    def command(self) -> Sequence[str]:
        store = [f'jetstream {{ store_dir: "{self.data}/store" }}'] if self.jetstream else []
        file = self.data / "nats.conf"
        file.write_text("\n".join(["host: 127.0.0.1", f"port: {self.port}", *store, *self.lines]))
        return (self.executable(), "-c", str(file))


@contextlib.contextmanager
def own_nats(folder: Path, *lines: str, jetstream: bool = True) -> Iterator[OwnNats]:
    """``lines`` are added to the configuration file."""
    try:
        OwnNats.executable()
    except ServiceUnavailable as unavailable:
        missing(str(unavailable))
    server = OwnNats(folder / "nats")
    server.lines, server.jetstream = lines, jetstream
    server.start()
    try:
        yield server
    finally:
        server.kill()


@dataclass(frozen=True)
class Key:
    seed: str
    public: str

    @classmethod
    def make(cls, prefix: int) -> Key:
        seed = nkeys.encode_seed(os.urandom(32), prefix)
        pair = nkeys.from_seed(bytearray(seed))
        return cls(bytes(seed).decode(), bytes(pair.public_key).decode())

    def sign(self, data: bytes) -> bytes:
        return bytes(nkeys.from_seed(bytearray(self.seed.encode())).sign(data))


def user_key() -> Key:
    return Key.make(nkeys.PREFIX_BYTE_USER)


def _token(issuer: Key, subject: Key, name: str, claims: dict[str, Any]) -> str:
    """A JWT as NATS has it, signed by an NKEY."""

    def part(value: bytes) -> str:
        return base64.urlsafe_b64encode(value).rstrip(b"=").decode()

    body: dict[str, Any] = {
        "iat": 1_700_000_000,
        "iss": issuer.public,
        "name": name,
        "sub": subject.public,
        "nats": {"version": 2, **claims},
    }
    digest = hashlib.sha256(json.dumps(body).encode()).digest()
    body["jti"] = base64.b32encode(digest).rstrip(b"=").decode()
    head = part(b'{"typ":"JWT","alg":"ed25519-nkey"}') + "." + part(json.dumps(body).encode())
    return f"{head}.{part(issuer.sign(head.encode()))}"


@dataclass(frozen=True)
class Operated:
    """A server's configuration lines for an operator with one account, and the credentials of its user."""

    lines: tuple[str, ...]
    credentials: str


def operated() -> Operated:
    operator = Key.make(nkeys.PREFIX_BYTE_OPERATOR)
    account = Key.make(nkeys.PREFIX_BYTE_ACCOUNT)
    system = Key.make(nkeys.PREFIX_BYTE_ACCOUNT)
    user = user_key()
    unlimited = dict.fromkeys(
        ("subs", "data", "payload", "imports", "exports", "conn", "leaf", "mem_storage", "disk_storage"), -1
    )
    limits = {**unlimited, "streams": -1, "consumer": -1, "wildcards": True}
    nothing_stored = unlimited | {"mem_storage": 0, "disk_storage": 0}
    accounts = {
        account.public: _token(operator, account, "account", {"type": "account", "limits": limits}),
        system.public: _token(operator, system, "SYS", {"type": "account", "limits": nothing_stored}),
    }
    token = _token(account, user, "user", {"type": "user", "subs": -1, "data": -1, "payload": -1})
    return Operated(
        (
            f"operator: {_token(operator, operator, 'operator', {'type': 'operator'})}",
            f"system_account: {system.public}",
            "resolver: MEMORY",
            "resolver_preload: {",
            *(f"  {public}: {text}" for public, text in accounts.items()),
            "}",
        ),
        f"-----BEGIN NATS USER JWT-----\n{token}\n------END NATS USER JWT------\n\n"
        f"-----BEGIN USER NKEY SEED-----\n{user.seed}\n------END USER NKEY SEED------\n",
    )
