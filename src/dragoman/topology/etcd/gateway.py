"""etcd version 3 over its JSON gateway: several hosts, TLS, user and password."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx

from dragoman.core.errors import ConfigurationError, DiscoveryUnavailable

log = logging.getLogger("dragoman.topology")

AUTHENTICATION = 10.0
UNAUTHENTICATED = 16
NOT_FOUND = 5
_TRY_ANOTHER = frozenset({4, 8, 14})
"""The codes of gRPC for: too late, exhausted, unavailable."""


class LeaseLost(DiscoveryUnavailable):
    """The lease that was named has expired."""

    code = "topology.discovery-lease"


@dataclass(frozen=True, slots=True)
class Access:
    """Where etcd is, and how it is entered."""

    hosts: tuple[str, ...]
    user: str = ""
    password: str = field(default="", repr=False)
    tls: bool = False
    ca: str | None = None
    certificate: str | None = None
    key: str | None = None

    def context(self) -> ssl.SSLContext | bool:
        if not self.tls:
            return False
        try:
            context = ssl.create_default_context(cafile=self.ca)
            if self.certificate:
                context.load_cert_chain(self.certificate, self.key)
        except (OSError, ssl.SSLError) as error:
            raise ConfigurationError(
                f"The certificates for etcd cannot be read: {error}",
                code="topology.tls",
                next="Check the options ca, cert and key.",
            ) from error
        return context


class Gateway:
    """Requests go to the host that answered last, and to the others when it does not."""

    def __init__(self, access: Access, timeout: float) -> None:
        self._access = access
        scheme = "https" if access.tls else "http"
        self._hosts: Sequence[str] = [f"{scheme}://{host}" for host in access.hosts]
        self._current = 0
        self._token = ""
        self._timeout = timeout
        transport = httpx.AsyncHTTPTransport(verify=access.context(), socket_options=_watchful(timeout))
        self._client = httpx.AsyncClient(transport=transport, timeout=timeout, trust_env=False)
        self.switched: Callable[[], None] = lambda: None
        """Called when another host is used from now on."""
        self.requests = 0

    async def call(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Raises ``DiscoveryUnavailable`` when no host answers, ``LeaseLost``."""
        problem: Exception | None = None
        # Twice at least: a connection that was kept may have ended without anybody noticing.
        for attempt in range(max(2, len(self._hosts))):
            at = (self._current + attempt) % len(self._hosts)
            try:
                found = await self._ask(self._hosts[at], path, body)
            except (httpx.TransportError, _Busy) as error:
                problem = error
                continue
            if at != self._current:
                self._current = at
                self.switched()
            return found
        raise DiscoveryUnavailable(
            f"etcd does not answer: {problem or 'no host'}",
            next="What was known is kept for a while, and it is tried again.",
            hosts=", ".join(self._access.hosts),
        ) from problem

    async def _ask(self, host: str, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        for fresh in (False, True):
            if self._access.user and (fresh or not self._token):
                await self._authenticate(host)
            self.requests += 1
            reply = await self._client.post(f"{host}{path}", json=body, headers=self._headers())
            if reply.status_code == 200:
                return _answer(reply)
            if not (self._access.user and _code(reply.content) == UNAUTHENTICATED):
                break
        raise _error(reply.content, reply.status_code)

    async def _authenticate(self, host: str) -> None:
        credentials = {"name": self._access.user, "password": self._access.password}
        # Passwords are slow to check on purpose.
        timeout = max(AUTHENTICATION, self._timeout)
        reply = await self._client.post(f"{host}/v3/auth/authenticate", json=credentials, timeout=timeout)
        if reply.status_code != 200:
            raise _error(reply.content, reply.status_code)
        self._token = reply.json()["token"]

    def _headers(self) -> dict[str, str]:
        return {"Authorization": self._token} if self._token else {}

    @asynccontextmanager
    async def stream(
        self, path: str, body: Mapping[str, Any]
    ) -> AsyncIterator[AsyncIterator[dict[str, Any]]]:
        """The results of an endless request, from the host that answers at present."""
        timeout = httpx.Timeout(self._timeout, read=None)
        request = self._client.build_request(
            "POST", f"{self._hosts[self._current]}{path}", json=body, headers=self._headers(), timeout=timeout
        )
        try:
            async with asyncio.timeout(self._timeout):
                try:
                    reply = await self._client.send(request, stream=True)
                except httpx.TransportError:
                    reply = await self._client.send(request, stream=True)
        except (httpx.TransportError, TimeoutError) as error:
            raise DiscoveryUnavailable(f"etcd does not answer: {error!r}") from error
        try:
            if reply.status_code != 200:
                raise _error(await reply.aread(), reply.status_code)
            yield _results(reply)
        except httpx.TransportError as error:
            raise DiscoveryUnavailable(f"etcd went away: {error!r}") from error
        finally:
            await reply.aclose()

    async def close(self) -> None:
        await self._client.aclose()


async def _results(reply: httpx.Response) -> AsyncIterator[dict[str, Any]]:
    async for line in reply.aiter_lines():
        if line:
            try:
                answer = json.loads(line)
            except ValueError as error:
                raise DiscoveryUnavailable("etcd was cut off in the middle of a word.") from error
            if "error" in answer:
                raise DiscoveryUnavailable(f"etcd ends the watch: {answer['error'].get('message')}")
            yield answer["result"]


def _answer(reply: httpx.Response) -> dict[str, Any]:
    try:
        answer = reply.json()
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        raise _Busy("the answer is not etcd's.")
    return answer


class _Busy(Exception):
    """This host cannot; another one may."""


def _code(content: bytes) -> int | None:
    try:
        code = json.loads(content).get("code")
    except (ValueError, AttributeError):
        return None
    return code if isinstance(code, int) else None


def _error(content: bytes, status: int) -> Exception:
    code = _code(content)
    text = content.decode(errors="replace")[:200].strip()
    if code in _TRY_ANOTHER or status >= 500:
        return _Busy(text)
    if code == NOT_FOUND and "lease" in text:
        return LeaseLost("The lease has expired.", next="A new one is made.")
    return DiscoveryUnavailable(
        f"etcd refuses: {text}", code="topology.discovery-refused", next="Check user, password and rights."
    )


def _watchful(timeout: float) -> list[tuple[int, int, int]]:
    """The kernel asks whether the other side is still there, though nothing is said for long."""
    seconds = max(1, int(timeout))
    return [
        (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
        (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, seconds),
        (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, seconds),
        (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3),
        (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 3000 * seconds),
    ]


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def decoded(text: str) -> str:
    return base64.b64decode(text).decode(errors="replace")


def after(prefix: str) -> str:
    """The first key behind all that begin so, encoded."""
    raw = prefix.encode()
    return base64.b64encode(raw[:-1] + bytes([raw[-1] + 1])).decode()
