"""From a URL to librdkafka's settings.

``kafka://user:password@host:9092,other:9092?sasl.mechanism=SCRAM-SHA-256&ssl.ca.location=ca.pem``: options
have librdkafka's names. Those that decide about safety (acknowledgements, commits, isolation) are not among
them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from dragoman.core.errors import ConfigurationError
from dragoman.core.loading import redacted
from dragoman.core.options import READ_AHEAD_BYTES, one_of, positive, positive_int, read_options

Readers = Mapping[str, Callable[[str], Any]]


def _number(text: str) -> int:
    number = int(text)
    if number < 0:
        raise ValueError("a whole number, zero or more, is needed.")
    return number


def _file(text: str) -> str:
    if not Path(text).is_file():
        raise ValueError("there is no such file.")
    return text


def _text(text: str) -> str:
    return text


_flag = one_of("true", "false")

COMMON: Readers = {
    "security.protocol": one_of("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
    "sasl.mechanism": one_of("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"),
    "sasl.username": _text,
    "sasl.password": _text,
    "sasl.oauthbearer.method": one_of("default", "oidc"),
    "sasl.oauthbearer.config": _text,
    "sasl.oauthbearer.client.id": _text,
    "sasl.oauthbearer.client.secret": _text,
    "sasl.oauthbearer.token.endpoint.url": _text,
    "sasl.oauthbearer.scope": _text,
    "sasl.oauthbearer.extensions": _text,
    "enable.sasl.oauthbearer.unsecure.jwt": _flag,
    "ssl.ca.location": _file,
    "ssl.certificate.location": _file,
    "ssl.key.location": _file,
    "ssl.key.password": _text,
    "ssl.endpoint.identification.algorithm": one_of("none", "https"),
    "enable.ssl.certificate.verification": _flag,
    "client.id": _text,
    "client.rack": _text,
    "client.dns.lookup": one_of("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"),
    "socket.timeout.ms": positive_int,
    "socket.connection.setup.timeout.ms": positive_int,
    "socket.keepalive.enable": _flag,
    "reconnect.backoff.ms": _number,
    "reconnect.backoff.max.ms": _number,
    "topic.metadata.refresh.interval.ms": positive_int,
    "message.max.bytes": positive_int,
}
PRODUCER: Readers = {
    "linger.ms": _number,
    "compression.type": one_of("none", "gzip", "snappy", "lz4", "zstd"),
    "batch.size": positive_int,
    "batch.num.messages": positive_int,
    "delivery.timeout.ms": positive_int,
    "queue.buffering.max.messages": positive_int,
    "queue.buffering.max.kbytes": positive_int,
    "partitioner": one_of(
        "murmur2_random", "murmur2", "consistent_random", "consistent", "fnv1a_random", "fnv1a"
    ),
    "transaction.timeout.ms": positive_int,
}
CONSUMER: Readers = {
    "group.protocol": one_of("classic", "consumer"),
    "group.remote.assignor": _text,
    "group.instance.id": _text,
    "session.timeout.ms": positive_int,
    "heartbeat.interval.ms": positive_int,
    "max.poll.interval.ms": positive_int,
    "fetch.min.bytes": positive_int,
    "fetch.wait.max.ms": _number,
    "fetch.max.bytes": positive_int,
    "max.partition.fetch.bytes": positive_int,
    "queued.min.messages": positive_int,
    "queued.max.messages.kbytes": positive_int,
}
SERVER_SIDE = ("session.timeout.ms", "heartbeat.interval.ms")
"""With ``group.protocol=consumer`` (KIP-848) the server has these, not the members."""
OURS: Readers = {"handover": positive, "read_ahead_bytes": positive_int}
_MOST_KBYTES = 2_097_151
"""The driver's limit for ``queued.max.messages.kbytes``."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Never shown: passwords are among them. ``handover`` is in seconds.

    ``read_ahead_bytes`` limits what all subscriptions together fetch before their handlers take it. Each
    driver's own queue is an eighth of it, unless ``queued.max.messages.kbytes`` says otherwise.
    """

    common: dict[str, Any] = field(repr=False)
    producer: dict[str, Any] = field(repr=False)
    consumer: dict[str, Any] = field(repr=False)
    handover: float = 10.0
    read_ahead_bytes: int = READ_AHEAD_BYTES

    def for_producing(self) -> dict[str, Any]:
        return {**self.common, **self.producer}

    def for_consuming(self) -> dict[str, Any]:
        kbytes = min(max(self.read_ahead_bytes // 8 // 1024, 1), _MOST_KBYTES)
        return {"queued.max.messages.kbytes": kbytes, **self.common, **self.consumer}


def read_settings(url: str) -> Settings:
    """Raises ``ConfigurationError`` for an unknown option or an impossible value, with what is allowed."""
    options = read_options(url, {**COMMON, **PRODUCER, **CONSUMER, **OURS})
    servers, credentials = _address(url)
    common = {name: options[name] for name in COMMON if name in options}
    consumer = {name: options[name] for name in CONSUMER if name in options}
    refuse_unheeded(consumer, url=redacted(url))
    return Settings(
        _secured({"bootstrap.servers": servers, "log_level": 0, **credentials, **common}, url),
        {name: options[name] for name in PRODUCER if name in options},
        consumer,
        **{name: options[name] for name in OURS if name in options},
    )


def subscription_settings(options: Mapping[str, Any]) -> dict[str, Any]:
    """What one subscription asks for beside the URL."""
    chosen: dict[str, Any] = {}
    for name, value in options.items():
        if name not in CONSUMER:
            raise ConfigurationError(
                f"A subscription has no option {name!r}.",
                code="configuration.option",
                next=f"Known options: {', '.join(sorted(CONSUMER))}.",
            )
        try:
            chosen[name] = CONSUMER[name](str(value))
        except ValueError as error:
            raise ConfigurationError(
                f"The option {name} cannot be {value!r}: {error}",
                code="configuration.option",
                next="Correct it in the subscription's options.",
            ) from error
    return chosen


def refuse_unheeded(consumer: Mapping[str, Any], **where: object) -> None:
    """Raise ``ConfigurationError`` for what the protocol of the group would pass over in silence."""
    if consumer.get("group.protocol") == "consumer":
        for name in SERVER_SIDE:
            if name in consumer:
                raise ConfigurationError(
                    f"{name} has no effect with group.protocol=consumer: the server decides it.",
                    code="configuration.option",
                    next=f"Leave it out, and set group.consumer.{name} on the server, or consumer.{name} of "
                    "the group; or use group.protocol=classic.",
                    **where,
                )
    elif "group.remote.assignor" in consumer:
        raise ConfigurationError(
            "group.remote.assignor has no effect without group.protocol=consumer: the members divide "
            "the partitions.",
            code="configuration.option",
            next="Leave it out, or set group.protocol=consumer beside it.",
            **where,
        )


def _address(url: str) -> tuple[str, dict[str, str]]:
    place = url.partition("://")[2].partition("?")[0].rstrip("/")
    credentials, at, servers = place.rpartition("@")
    if not servers or "/" in servers:
        raise ConfigurationError(
            f"{redacted(url)!r} names no server.", next="Write kafka://host:9092,other:9092?option=value"
        )
    if not at:
        return servers, {}
    user, _, password = credentials.partition(":")
    return servers, {"sasl.username": unquote(user), "sasl.password": unquote(password)}


def _secured(settings: dict[str, Any], url: str) -> dict[str, Any]:
    """Fill in what follows from the rest: a user means SASL, and SASL is encrypted unless told otherwise."""
    signs_in = any(name.startswith("sasl.") for name in settings)
    encrypts = any(name.startswith(("ssl.", "enable.ssl.")) for name in settings)
    if signs_in:
        settings.setdefault("security.protocol", "SASL_SSL")
        settings.setdefault("sasl.mechanism", "PLAIN")
    elif encrypts:
        settings.setdefault("security.protocol", "SSL")
    protocol = settings.get("security.protocol", "PLAINTEXT")
    if signs_in and not protocol.startswith("SASL"):
        raise _contradiction(f"security.protocol={protocol} does not send the credentials.", url)
    if encrypts and not protocol.endswith("SSL"):
        raise _contradiction(f"security.protocol={protocol} does not use the ssl options.", url)
    needs_user = protocol.startswith("SASL") and settings.get("sasl.mechanism", "PLAIN") != "OAUTHBEARER"
    if needs_user and "sasl.username" not in settings:
        raise _contradiction("SASL needs a user.", url)
    return settings


def _contradiction(what: str, url: str) -> ConfigurationError:
    return ConfigurationError(
        what,
        code="configuration.option",
        next="Use SASL_SSL or SASL_PLAINTEXT with a user, SSL or SASL_SSL with ssl options.",
        url=redacted(url),
    )
