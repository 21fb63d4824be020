"""Cookies prove that a client can be reached at its address. The server keeps nothing for them.

A cookie is good for one purpose: to open the session that was offered, or to show that the client of a
session is where it moved to. A cookie that was seen on the network is of no use to another session.
"""

from __future__ import annotations

import hmac
import secrets
import time

_MAC = 16
_EXPIRY = 4


class Cookies:
    """Servers that share a ``secret`` take each other's cookies."""

    def __init__(self, seconds: float, secret: bytes = b"") -> None:
        self._seconds = seconds
        self._secret = secret or secrets.token_bytes(32)

    def make(self, host: str, purpose: bytes) -> bytes:
        expiry = int(time.time() + self._seconds).to_bytes(_EXPIRY, "big")
        return expiry + self._mac(host, purpose, expiry)

    def good(self, host: str, purpose: bytes, cookie: bytes) -> bool:
        expiry, mac = cookie[:_EXPIRY], cookie[_EXPIRY:]
        fresh = int.from_bytes(expiry, "big") >= time.time()
        return fresh and hmac.compare_digest(mac, self._mac(host, purpose, expiry))

    def _mac(self, host: str, purpose: bytes, expiry: bytes) -> bytes:
        name = host.encode()
        text = expiry + len(name).to_bytes(2, "big") + name + purpose
        return hmac.digest(self._secret, text, "sha256")[:_MAC]


def for_opening(session: bytes, public: bytes) -> bytes:
    return b"open" + session + public


def for_moving(session: bytes) -> bytes:
    return b"move" + session
