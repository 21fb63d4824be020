"""Cookies prove that who sends from an address can be reached there. The server keeps nothing for them."""

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

    def make(self, host: str) -> bytes:
        expiry = int(time.time() + self._seconds).to_bytes(_EXPIRY, "big")
        return expiry + self._mac(host, expiry)

    def good(self, host: str, cookie: bytes) -> bool:
        expiry, mac = cookie[:_EXPIRY], cookie[_EXPIRY:]
        fresh = int.from_bytes(expiry, "big") >= time.time()
        return fresh and hmac.compare_digest(mac, self._mac(host, expiry))

    def _mac(self, host: str, expiry: bytes) -> bytes:
        return hmac.digest(self._secret, expiry + host.encode(), "sha256")[:_MAC]
