"""What can be written in ``rabbitmq://user:password@host:port/vhost?...``."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from yarl import URL

from dragoman.core.errors import ConfigurationError
from dragoman.core.loading import redacted
from dragoman.core.options import one_of, positive, positive_int, read_options

PLAIN_PORT = 5672
TLS_PORT = 5671
MOST = 65_000


@dataclass(frozen=True, slots=True)
class Options:
    host: str
    port: int
    vhost: str = "/"
    user: str = "guest"
    password: str = "guest"  # noqa: S105 -- the server's own default, for this machine only
    tls: bool = False
    ca_file: str | None = None
    """Whom to trust; without it, whom the system trusts."""
    cert_file: str | None = None
    key_file: str | None = None
    auth: str = "plain"
    """``plain``: user and password. ``external``: the client's certificate says who we are."""
    heartbeat: int = 10
    """Seconds between signs of life. A silent connection is given up after about three of them."""
    timeout: float = 30.0
    """Seconds to wait for a connection, an answer or a confirmation before ``BrokerUnavailable``."""
    prefetch: int = 1000
    """Messages on their way to a receiver, per partition."""
    handover: float = 30.0
    """Seconds that a member may take to finish what it holds when another one joins."""
    count_deliveries: bool = True
    """Record what is delivered before it is, so that attempts are counted over crashes."""

    @property
    def amqp(self) -> URL:
        query = {"heartbeat": str(self.heartbeat), "auth": self.auth, "name": "dragoman"}
        return URL.build(
            scheme="amqps" if self.tls else "amqp",
            user=self.user,
            password=self.password,
            host=self.host,
            port=self.port,
            path="/" if self.vhost == "/" else f"/{self.vhost}",
            query=query,
        )

    def context(self) -> ssl.SSLContext | None:
        """The server's certificate is always checked, its name too."""
        if not self.tls:
            return None
        context = ssl.create_default_context(cafile=self.ca_file)
        if self.cert_file:
            context.load_cert_chain(self.cert_file, self.key_file)
        return context


def options_of(url: str) -> Options:
    given = read_options(
        url,
        {
            "tls": _yes_or_no,
            "ca_file": _existing_file,
            "cert_file": _existing_file,
            "key_file": _existing_file,
            "auth": one_of("plain", "external"),
            "heartbeat": _short,
            "timeout": positive,
            "prefetch": _short,
            "handover": positive,
            "count_deliveries": _yes_or_no,
        },
    )
    parts = urlsplit(url)
    try:
        port = parts.port
    except ValueError as error:
        raise _refused(url, "The port is not a number.") from error
    if not parts.hostname:
        raise _refused(url, "The host is missing.")
    if parts.username:
        given["user"] = unquote(parts.username)
        given["password"] = unquote(parts.password or "")
    given["vhost"] = unquote(parts.path.removeprefix("/")) or "/"
    tls = given.get("tls", False)
    _check_security(url, given, tls)
    return Options(host=parts.hostname, port=port or (TLS_PORT if tls else PLAIN_PORT), **given)


def _check_security(url: str, given: dict[str, object], tls: bool) -> None:
    files = [name for name in ("ca_file", "cert_file", "key_file") if name in given]
    if files and not tls:
        raise _refused(url, f"{', '.join(files)} without tls=true would be ignored.")
    if "key_file" in given and "cert_file" not in given:
        raise _refused(url, "key_file needs cert_file.")
    if given.get("auth") == "external" and "cert_file" not in given:
        raise _refused(url, "auth=external needs tls=true and cert_file.")


def _refused(url: str, what: str) -> ConfigurationError:
    return ConfigurationError(
        what,
        code="configuration.option",
        next="Write it as rabbitmq://user:password@host:port/vhost?options.",
        url=redacted(url),
    )


def _yes_or_no(text: str) -> bool:
    return one_of("true", "false")(text) == "true"


def _short(text: str) -> int:
    """What AMQP has two bytes for."""
    number = positive_int(text)
    if number > MOST:
        raise ValueError(f"at most {MOST}.")
    return number


def _existing_file(text: str) -> str:
    if not Path(text).is_file():
        raise ValueError("there is no such file.")
    return text
