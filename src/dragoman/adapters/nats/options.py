"""What can be written in ``nats://user:password@host:port,host:port?...``."""

from __future__ import annotations

import re
import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from dragoman.core.errors import ConfigurationError
from dragoman.core.options import one_of, positive, positive_int, read_options

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_USER_SEED = re.compile(rb"\s*SU[A-Z2-7]{56}\s*")


@dataclass(frozen=True, slots=True)
class Options:
    servers: tuple[str, ...]
    username: str | None
    password: str | None = field(repr=False)
    token: str | None = field(default=None, repr=False)
    nkey: str | None = None
    """The file with the seed of an NKEY."""
    credentials: str | None = None
    """The file with a JWT and its key, as ``nsc`` writes it."""
    tls: bool = False
    ca: str | None = None
    """The file with the certificates to trust; the system's otherwise."""
    certificate: str | None = None
    """Our own certificate, for servers that want one, and its key."""
    private_key: str | None = None
    verify: bool = True
    """Whether the server's certificate and name are checked. ``no`` only for tests."""
    prefix: str = "dragoman"
    """The first part of every stream and subject."""
    domain: str | None = None
    """The JetStream domain, where it is not the server's own."""
    replicas: int = 1
    """So many servers of a cluster keep each message."""
    lease: float = 10.0
    """Seconds until a member that hangs is out. One whose process dies is noticed within some seconds."""
    handover: float = 30.0
    """Seconds that a member may take to finish what it holds when another one joins."""
    timeout: float = 10.0
    """Seconds to wait for an answer of the server."""

    def driver(self) -> dict[str, Any]:
        """How the driver connects. It does not keep what is published while there is no connection."""
        found: dict[str, Any] = {
            "servers": list(self.servers),
            "name": "dragoman",
            "connect_timeout": self.timeout,
            "reconnect_time_wait": 0.2,
            "max_reconnect_attempts": 1,
            "ping_interval": 10,
            "pending_size": 0,
            "allow_reconnect": False,
            "skip_subject_validation": True,
            "user": self.username,
            "password": self.password,
            "token": self.token,
            "nkeys_seed": self.nkey,
            "user_credentials": self.credentials,
        }
        if self.tls:
            found["tls"] = self._context()
        return {name: value for name, value in found.items() if value is not None}

    def _context(self) -> ssl.SSLContext:
        try:
            context = ssl.create_default_context(cafile=self.ca)
            if not self.verify:
                context.check_hostname = False
                context.verify_mode = ssl.CERT_NONE
            if self.certificate is not None:
                context.load_cert_chain(self.certificate, self.private_key)
        except (OSError, ssl.SSLError) as error:
            raise ConfigurationError(
                f"A certificate cannot be used: {error.strerror or error}.",
                code="configuration.option",
                next="See the options ca, certificate and private_key.",
            ) from error
        return context


def options_of(url: str) -> Options:
    given = read_options(
        url,
        {
            "token": str,
            "nkey": _seed,
            "credentials": _credentials,
            "tls": _yes_or_no,
            "ca": _file,
            "certificate": _file,
            "private_key": _file,
            "verify": _yes_or_no,
            "prefix": _name,
            "domain": _name,
            "replicas": positive_int,
            "lease": positive,
            "handover": positive,
            "timeout": positive,
        },
    )
    needs_tls = sorted({"ca", "certificate", "private_key", "verify"} & given.keys())
    if needs_tls and not given.get("tls"):
        raise _wrong(f"{', '.join(needs_tls)} without TLS.", "Add tls=yes.")
    credentials, _, places = urlsplit(url).netloc.rpartition("@")
    user, colon, password = credentials.partition(":")
    if credentials and not colon:
        raise _wrong("it has a user without a password.", "Write user:password@, or ?token=... for a token.")
    ways = [name for name in ("token", "nkey", "credentials") if name in given] + (["user"] if user else [])
    if len(ways) > 1:
        raise _wrong(f"{' and '.join(ways)} are given.", "Log in one way only.")
    return Options(
        servers=tuple(_server(place) for place in (places or "localhost").split(",")),
        username=unquote(user) or None,
        password=unquote(password) or None,
        **given,
    )


def _server(place: str) -> str:
    try:
        parts = urlsplit(f"nats://{place}")
        return f"nats://{place}" if parts.port else f"nats://{place}:4222"
    except ValueError:
        raise _wrong(f"{place!r} is not a host and a port.", "Write host:4222.") from None


def _wrong(what: str, next: str) -> ConfigurationError:
    return ConfigurationError(f"The URL cannot be used: {what}", code="configuration.option", next=next)


def _yes_or_no(text: str) -> bool:
    return one_of("yes", "no")(text) == "yes"


def _file(text: str) -> str:
    if not Path(text).is_file():
        raise ValueError("there is no such file.")
    return text


def _seed(text: str) -> str:
    if not _USER_SEED.fullmatch(_content(text)):
        raise ValueError("the file holds no seed of a user's NKEY, SU and 56 letters and digits.")
    return text


def _credentials(text: str) -> str:
    """The driver would look for ever for what is not there."""
    found = _content(text)
    if b"BEGIN NATS USER JWT" not in found or b"BEGIN USER NKEY SEED" not in found:
        raise ValueError("the file holds no JWT with its key, as 'nsc generate creds' writes it.")
    return text


def _content(text: str) -> bytes:
    try:
        return Path(_file(text)).read_bytes()
    except OSError as error:
        raise ValueError(f"the file cannot be read: {error.strerror}.") from error


def _name(text: str) -> str:
    if not _NAME.fullmatch(text):
        raise ValueError("use 1 to 64 letters, digits and the signs _-")
    return text
