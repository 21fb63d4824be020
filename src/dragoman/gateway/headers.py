"""The headers of envelopes inside. The envelope itself stays as SIMEX has it."""

from __future__ import annotations

MESSAGE_ID = "simex-id"
"""The same for all copies of one request."""
HOPS = "simex-hops"
"""How often it may still be forwarded."""
