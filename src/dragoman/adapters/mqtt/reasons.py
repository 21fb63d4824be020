"""What a server's reason codes mean to us: one table for MQTT 5, one for the return codes of 3.1.1."""

from __future__ import annotations

from collections.abc import Mapping

from dragoman.adapters.mqtt.wire import V5
from dragoman.core.errors import (
    AccessRefused,
    BrokerError,
    BrokerUnavailable,
    ConfigurationError,
    DragomanError,
)

SESSION_TAKEN_OVER = 0x8E
FAILURE = 0x80
"""From here on a reason is an error."""

_LATER = "It is tried again."
_RIGHTS = "Check user, password, certificate and the server's access rules."
_OPTIONS = "Change the option in the URL, or the server's settings."

Meaning = tuple[type[DragomanError], str, str]

REASONS: Mapping[int, Meaning] = {
    0x80: (BrokerError, "The server gives no reason.", "Its log may tell more."),
    0x81: (BrokerUnavailable, "The server could not read a packet.", "Is it an MQTT 5 server?"),
    0x82: (BrokerUnavailable, "The server says that we broke the protocol.", "Is it an MQTT 5 server?"),
    0x83: (BrokerError, "The server refuses this for reasons of its own.", "Its log may tell more."),
    0x84: (ConfigurationError, "The server does not speak MQTT 5.", "Use the option version=3.1.1."),
    0x85: (ConfigurationError, "The server does not accept the client's name.", _OPTIONS),
    0x86: (AccessRefused, "The server does not accept user or password.", _RIGHTS),
    0x87: (AccessRefused, "The server does not let us do this.", _RIGHTS),
    0x88: (BrokerUnavailable, "The server is not available.", _LATER),
    0x89: (BrokerUnavailable, "The server is busy.", _LATER),
    0x8A: (AccessRefused, "The server has banned us.", _RIGHTS),
    0x8B: (BrokerUnavailable, "The server is going down.", _LATER),
    0x8C: (AccessRefused, "The server wants another way to log in.", _RIGHTS),
    0x8D: (BrokerUnavailable, "The server did not hear from us in time.", _LATER),
    0x8E: (BrokerUnavailable, "Another connection took the session over.", "It is served there now."),
    0x8F: (ConfigurationError, "The server does not accept this topic filter.", _OPTIONS),
    0x90: (ConfigurationError, "The server does not accept this topic.", _OPTIONS),
    0x91: (BrokerUnavailable, "The server still uses this packet's number.", _LATER),
    0x92: (BrokerUnavailable, "The server does not know this packet's number.", _LATER),
    0x93: (BrokerUnavailable, "The server was sent more at once than it allows.", _LATER),
    0x94: (BrokerUnavailable, "The server does not accept this alias of a topic.", _LATER),
    0x95: (
        ConfigurationError,
        "The packet is larger than the server allows.",
        "Send less at once.",
    ),
    0x96: (BrokerUnavailable, "The server gets messages too fast.", _LATER),
    0x97: (BrokerUnavailable, "A quota of the server is used up.", _LATER),
    0x98: (BrokerUnavailable, "The connection was ended by the server's administrator.", _LATER),
    0x99: (ConfigurationError, "The server does not accept the payload's format.", _OPTIONS),
    0x9A: (ConfigurationError, "The server keeps no retained messages.", "Channels are declared by them."),
    0x9B: (ConfigurationError, "The server lacks this quality of service.", "Use the option qos."),
    0x9C: (BrokerUnavailable, "The server sends us to another server.", "Name that one in the URL."),
    0x9D: (BrokerUnavailable, "The server has moved.", "Name the new one in the URL."),
    0x9E: (
        ConfigurationError,
        "The server has no shared subscriptions.",
        "Share by failover.",
    ),
    0x9F: (BrokerUnavailable, "The server allows fewer connections in this time.", _LATER),
    0xA0: (BrokerUnavailable, "The server ends connections after a while.", _LATER),
    0xA1: (ConfigurationError, "The server has no numbers for subscriptions.", _OPTIONS),
    0xA2: (ConfigurationError, "The server has no wildcards in subscriptions.", _OPTIONS),
}

RETURN_CODES: Mapping[int, Meaning] = {
    1: (ConfigurationError, "The server does not speak MQTT 3.1.1.", "Use the option version=5."),
    2: REASONS[0x85],
    3: REASONS[0x88],
    4: REASONS[0x86],
    5: REASONS[0x87],
}
"""How a server of MQTT 3.1.1 answers CONNECT. A subscription that fails has 0x80, as in MQTT 5."""


def is_failure(reason: int) -> bool:
    return reason >= FAILURE


def error_of(reason: int, version: int, detail: str = "", **where: str) -> DragomanError:
    """Ours for theirs. ``detail`` are the server's own words."""
    table = REASONS if version == V5 or reason >= FAILURE else RETURN_CODES
    kind, what, next = table.get(reason, REASONS[0x80])
    said = f" It says: {detail}" if detail else ""
    return kind(f"{what}{said}", next=next, code=None, reason=f"0x{reason:02x}", **where)
