"""The headers of envelopes inside. The envelope itself stays as SIMEX has it."""

from __future__ import annotations

from dragoman.core.message import Headers, header

MESSAGE_ID = "simex-id"
"""The same for all copies of one request."""
HOPS = "simex-hops"
"""How often it may still be forwarded."""

_UNCOUNTED = 16
"""For a request that no drop-off point has counted: it must not go in circles either."""


def hops_left(headers: Headers) -> int:
    """How often the request may still be forwarded; not at all, if what it says is no number."""
    text = header(headers, HOPS)
    if text is None:
        return _UNCOUNTED
    return int(text) if text.isdigit() and len(text) < 10 else 0
