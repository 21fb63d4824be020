"""A gateway from a TOML file.

collection-point = "service.collection"
ttl = "retention"

[jwt]
key-file = "tokens.pem"
algorithm = "EdDSA"
audience = "https://gateway.example"

[[public]]
resource = "service.shares"
entity = "movement"
methods = ["select"]
level = "authorized"
retain = 300
"""

from __future__ import annotations

import os
import secrets
from dataclasses import replace
from pathlib import Path

import msgspec

from dragoman.core.errors import ConfigurationError
from dragoman.gateway.envelope.method import Method
from dragoman.gateway.limits import EnvelopeLimits
from dragoman.gateway.options import GatewayOptions
from dragoman.gateway.policy import REQUESTS, Policy, Rule, Ttl
from dragoman.gateway.rates import Rate
from dragoman.gateway.store.port import Collect
from dragoman.registry.http.authenticate import JwtOptions


class PublicTable(msgspec.Struct, frozen=True, kw_only=True, rename="kebab", forbid_unknown_fields=True):
    resource: str
    entity: str | None = None
    methods: list[Method] | None = None
    versions: list[str] | None = None
    level: str = "authorized"
    retain: float = 300.0
    expires: float = 300.0
    hops: int = 16
    collect: Collect = Collect.LEASE
    lease: float = 30.0

    def rule(self) -> Rule:
        return Rule(
            resource=self.resource,
            entity=self.entity,
            methods=REQUESTS if self.methods is None else frozenset(self.methods),
            versions=None if self.versions is None else frozenset(self.versions),
            level=self.level,
            retain=self.retain,
            expires=self.expires,
            hops=self.hops,
            collect=self.collect,
            lease=self.lease,
        )


class JwtTable(msgspec.Struct, frozen=True, kw_only=True, rename="kebab", forbid_unknown_fields=True):
    key_file: str
    algorithm: str
    audience: str
    issuer: str | None = None


class RateTable(msgspec.Struct, frozen=True, kw_only=True, rename="kebab", forbid_unknown_fields=True):
    per_second: float
    burst: float


class LimitsTable(msgspec.Struct, frozen=True, kw_only=True, rename="kebab", forbid_unknown_fields=True):
    bytes: int = EnvelopeLimits().bytes
    datums: int = EnvelopeLimits().datums
    depth: int = EnvelopeLimits().depth


class GatewayFile(msgspec.Struct, frozen=True, kw_only=True, rename="kebab", forbid_unknown_fields=True):
    """All that can be said in the file."""

    public: list[PublicTable]
    collection_point: str = "service.collection"
    ttl: Ttl = Ttl.RETENTION
    jwt: JwtTable | None = None
    owner_rate: RateTable | None = None
    peer_rate: RateTable | None = None
    limits: LimitsTable = LimitsTable()
    replay_window: float = 300.0
    waiting_quota: int = 10_000
    longest_wait: float = 30.0


def read_file(path: str) -> GatewayFile:
    try:
        return msgspec.toml.decode(Path(path).read_bytes(), type=GatewayFile)
    except OSError as error:
        raise ConfigurationError(
            f"The gateway's file cannot be read: {error}.",
            next="Name a TOML file that this user may read.",
            path=path,
        ) from error
    except (msgspec.MsgspecError, ValueError) as error:
        raise ConfigurationError(
            f"The gateway's file cannot be understood: {error}.",
            code="configuration.gateway",
            next="Correct it; then try: dragoman gateway check --config FILE",
            path=path,
        ) from error


def options_from(file: GatewayFile, secret: bytes, folder: Path | None = None) -> GatewayOptions:
    """``folder`` is where relative paths in the file begin."""
    jwt = file.jwt
    given = GatewayOptions(
        policy=Policy(tuple(each.rule() for each in file.public), file.ttl),
        secret=secret,
        collection_point=file.collection_point,
        owner_rate=_rate(file.owner_rate),
        peer_rate=_rate(file.peer_rate),
        limits=EnvelopeLimits(bytes=file.limits.bytes, datums=file.limits.datums, depth=file.limits.depth),
        replay_window=file.replay_window,
        waiting_quota=file.waiting_quota,
        longest_wait=file.longest_wait,
    )
    if jwt is None:
        return given
    key_file = str((folder or Path()) / jwt.key_file)
    return replace(given, jwt=JwtOptions.from_file(key_file, jwt.algorithm, jwt.audience, jwt.issuer))


def _rate(table: RateTable | None) -> Rate | None:
    return None if table is None else Rate(table.per_second, table.burst)


def secret_from(path: str) -> bytes:
    """The secret in a file, as text."""
    return secrets_from(path)[0]


def secrets_from(path: str, *, make: bool = False) -> list[bytes]:
    """The secrets in a file, one in a line: the first is in force, the others are older ones.

    With ``make`` a missing file is made, for nobody else to read.
    """
    place = Path(path)
    try:
        if make and not place.exists():
            place.parent.mkdir(parents=True, exist_ok=True)
            _create(place)
        lines = [line.strip().encode() for line in place.read_text().splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(
            f"The secret cannot be read: {error}.",
            next="Name a text file that this user may read, or a new one in a folder that it may write to.",
            path=path,
        ) from error
    if not lines:
        raise ConfigurationError(
            "The file of the secret is empty.", next="Remove it, and one is made.", path=path
        )
    return lines


def _create(place: Path) -> None:
    """Whole at once: another gateway that starts now reads this one, or makes the one we then read."""
    draft = place.with_name(f"{place.name}.{os.getpid()}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        os.write(descriptor, secrets.token_hex(32).encode())
    finally:
        os.close(descriptor)
    try:
        os.link(draft, place)
    except FileExistsError:
        pass
    finally:
        draft.unlink()
