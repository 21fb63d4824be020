"""What can be written in ``redis://user:password@host:port/db?...``."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from dragoman.core.errors import ConfigurationError
from dragoman.core.loading import redacted
from dragoman.core.options import one_of, positive, positive_int, read_options

_PREFIX = re.compile(r"[A-Za-z0-9_.:-]{1,64}")


@dataclass(frozen=True, slots=True)
class Options:
    host: str
    port: int
    db: int
    username: str | None
    password: str | None = field(repr=False)
    tls: bool
    ca: str | None = None
    """The file with the certificates to trust; the system's otherwise."""
    certificate: str | None = None
    """Our own certificate, for servers that want one, and its key."""
    private_key: str | None = None
    verify: bool = True
    """Whether the server's certificate and name are checked. ``no`` only for tests."""
    prefix: str = "dragoman"
    """The first part of every key."""
    lease: float = 10.0
    """Seconds until a member that hangs is out. One whose process dies is noticed within some seconds."""
    handover: float = 30.0
    """Seconds that a member may take to finish what it holds when another one joins."""
    timeout: float = 10.0
    """Seconds to wait for an answer of the server."""
    durability: str = "disk"
    """``disk``: the server must have ``appendonly yes``. ``memory``: what it forgets may be lost."""
    replicas: int = 0
    """So many replicas must have a message before ``publish`` returns."""

    def driver(self) -> dict[str, Any]:
        """How the driver connects."""
        found: dict[str, Any] = {
            "host": self.host,
            "port": self.port,
            "db": self.db,
            "username": self.username,
            "password": self.password,
            "socket_connect_timeout": self.timeout,
            "socket_timeout": self.timeout,
            "client_name": "dragoman",
            "protocol": 2,
        }
        if self.tls:
            found |= {
                "ssl": True,
                "ssl_ca_certs": self.ca,
                "ssl_certfile": self.certificate,
                "ssl_keyfile": self.private_key,
                "ssl_cert_reqs": "required" if self.verify else "none",
                "ssl_check_hostname": self.verify,
            }
        return found


def options_of(url: str) -> Options:
    given = read_options(
        url,
        {
            "tls": _yes_or_no,
            "ca": _file,
            "certificate": _file,
            "private_key": _file,
            "verify": _yes_or_no,
            "prefix": _prefix,
            "lease": positive,
            "handover": positive,
            "timeout": positive,
            "durability": one_of("disk", "memory"),
            "replicas": positive_int,
        },
    )
    parts = urlsplit(url)
    given["tls"] = given.get("tls", False) or parts.scheme.lower() == "rediss"
    needs_tls = sorted({"ca", "certificate", "private_key", "verify"} & given.keys())
    if needs_tls and not given["tls"]:
        raise _wrong(url, f"{', '.join(needs_tls)} without TLS.", "Add tls=yes, or use rediss://.")
    try:
        port = parts.port or 6379
        db = int(parts.path.strip("/") or 0)
    except ValueError:
        raise _wrong(url, "the port or the database is not a number.", "Write host:6379/0.") from None
    return Options(
        host=parts.hostname or "localhost",
        port=port,
        db=db,
        username=unquote(parts.username) if parts.username else None,
        password=unquote(parts.password) if parts.password else None,
        **given,
    )


def _wrong(url: str, what: str, next: str) -> ConfigurationError:
    return ConfigurationError(
        f"The URL cannot be used: {what}", code="configuration.option", next=next, url=redacted(url)
    )


def _yes_or_no(text: str) -> bool:
    return one_of("yes", "no")(text) == "yes"


def _file(text: str) -> str:
    if not Path(text).is_file():
        raise ValueError("there is no such file.")
    return text


def _prefix(text: str) -> str:
    if not _PREFIX.fullmatch(text):
        raise ValueError("use 1 to 64 letters, digits and the signs _.:-")
    return text
