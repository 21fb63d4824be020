"""Pages of other origins: only those that are named may call the gateway from a browser."""

from __future__ import annotations

from collections.abc import Iterable

from starlette.types import Scope

from dragoman.core.errors import ConfigurationError
from dragoman.gateway.http.answers import Answer, Headers


class Origins:
    def __init__(self, origins: Iterable[str]) -> None:
        for origin in origins:
            if "://" not in origin or origin.endswith("/"):
                raise ConfigurationError(
                    f"{origin!r} is not an origin.", next="Write it as https://app.example, without a path."
                )
        self._known = frozenset(origin.encode() for origin in origins)

    def headers(self, scope: Scope) -> Headers:
        """What lets the page read the answer; nothing for pages that are not named."""
        if not self._known:
            return ()
        origin = next((value for name, value in scope["headers"] if name == b"origin"), None)
        if origin not in self._known or origin is None:
            return ((b"vary", b"origin"),)
        return (
            (b"vary", b"origin"),
            (b"access-control-allow-origin", origin),
            (b"access-control-expose-headers", b"retry-after"),
        )

    def preflight(self, scope: Scope) -> Answer:
        """The answer to a browser that asks first. Pages that are not named are not let through."""
        allowed = any(name == b"access-control-allow-origin" for name, _ in self.headers(scope))
        return Answer(204, b"", _PREFLIGHT if allowed else ())


_PREFLIGHT: Headers = (
    (b"access-control-allow-methods", b"POST"),
    (b"access-control-allow-headers", b"content-type"),
    (b"access-control-max-age", b"600"),
)
