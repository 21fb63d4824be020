"""What can be written in ``mqtt://user:password@host:1883?...``."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from dragoman.adapters.mqtt.wire import V5, V311
from dragoman.core.errors import ConfigurationError
from dragoman.core.loading import redacted
from dragoman.core.options import one_of, positive_int, read_options

_VERSIONS = {"5": V5, "3.1.1": V311}


@dataclass(frozen=True, slots=True)
class Options:
    host: str
    port: int
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    version: int = V5
    qos: int = 1
    """1 or 2. Both are acknowledged after handling, and both deliver at least once."""
    confirm: str = "saved"
    """``saved``: ``publish`` also has mosquitto save its database, and waits for it. ``received``: its word
    is enough, though it may have the message in memory only."""
    autosave_interval: int = 250
    """Mosquitto's setting of that name, or more: after so many changes it saves. Less is not safe."""
    session_expiry: int = 7 * 24 * 3600
    """Seconds that the server keeps the messages of a group none of whose members are there (MQTT 5)."""
    receive_maximum: int = 1000
    """Messages that the server may send ahead of their acknowledgement, per member (MQTT 5)."""
    keep_alive: int = 15
    """Seconds of silence after which a connection is taken for dead."""
    timeout: float = 10.0
    """Seconds that the server may take to answer."""
    prefix: str = "dragoman"
    """Where channels and groups are declared, as retained messages."""
    will_channel: str | None = None
    """Where the server publishes ``will_payload`` if this client dies."""
    will_payload: str = ""
    context: ssl.SSLContext | None = field(default=None, repr=False)


def _file(text: str) -> str:
    if not Path(text).is_file():
        raise ValueError("there is no such file.")
    return text


def _expiry(text: str) -> int:
    number = positive_int(text)
    if number >= 0xFFFFFFFF:
        raise ValueError("less than 4,294,967,295 seconds are needed.")
    return number


def _maximum(text: str) -> int:
    number = positive_int(text)
    if number > 0xFFFF:
        raise ValueError("no more than 65,535.")
    return number


def _prefix(text: str) -> str:
    if not text or set("+#\0 $") & set(text) or text.startswith("/") or text.endswith("/"):
        raise ValueError("a topic without wildcards and '$' is needed.")
    return text


_READERS: dict[str, Callable[[str], Any]] = {
    "version": one_of(*_VERSIONS),
    "qos": lambda text: int(one_of("1", "2")(text)),
    "confirm": one_of("saved", "received"),
    "autosave_interval": positive_int,
    "session_expiry": _expiry,
    "receive_maximum": _maximum,
    "keep_alive": _maximum,
    "timeout": positive_int,
    "prefix": _prefix,
    "will_channel": str,
    "will_payload": str,
    "tls": one_of("true", "false"),
    "ca": _file,
    "certificate": _file,
    "private_key": _file,
    "private_key_password": str,
}


def options_of(url: str) -> Options:
    given = read_options(url, _READERS)
    parts = urlsplit(url)
    try:
        host, port = parts.hostname or "localhost", parts.port
    except ValueError as error:
        raise ConfigurationError(f"{redacted(url)!r} has no usable port.", next="Use a number.") from error
    if parts.path.strip("/"):
        raise ConfigurationError(
            f"{redacted(url)!r} has a path.", next="An MQTT URL ends with the port, before any '?'."
        )
    secure = _context(given, url)
    if "version" in given:
        given["version"] = _VERSIONS[given["version"]]
    return Options(
        host,
        port or (8883 if secure else 1883),
        None if parts.username is None else unquote(parts.username),
        None if parts.password is None else unquote(parts.password),
        context=secure,
        **given,
    )


def _context(given: dict[str, str], url: str) -> ssl.SSLContext | None:
    """Takes the options about TLS out of the others."""
    wanted = given.pop("tls", None)
    ca, certificate = given.pop("ca", None), given.pop("certificate", None)
    key, password = given.pop("private_key", None), given.pop("private_key_password", None)
    if wanted != "true":
        if ca or certificate or key or password:
            raise ConfigurationError(
                f"{redacted(url)!r} has certificates but no TLS.",
                code="configuration.option",
                next="Add the option tls=true.",
            )
        return None
    try:
        context = ssl.create_default_context(cafile=ca)
        if certificate:
            context.load_cert_chain(certificate, key, password)
    except (OSError, ssl.SSLError) as error:
        raise ConfigurationError(
            f"The certificates cannot be used: {error}",
            code="configuration.option",
            next="Check ca, certificate and private_key: files in PEM format.",
        ) from error
    return context
