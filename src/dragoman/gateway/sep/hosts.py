"""The sessions of each host, so that one host cannot take the room of all."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping

from dragoman.gateway.sep.session import Address, Session
from dragoman.registry.http.addresses import network_of

_NONE: Mapping[bytes, Session] = {}


class Hosts:
    """A session belongs to the host that opened it, also if it moves."""

    def __init__(self) -> None:
        self._sessions: dict[str, OrderedDict[bytes, Session]] = {}

    def of(self, host: str) -> Mapping[bytes, Session]:
        """The one that was silent longest comes first."""
        return self._sessions.get(host, _NONE)

    def add(self, session: Session) -> None:
        self._sessions.setdefault(session.host, OrderedDict())[session.id] = session

    def heard(self, session: Session) -> None:
        own = self._sessions.get(session.host)
        if own is not None and session.id in own:
            own.move_to_end(session.id)

    def forget(self, session: Session) -> None:
        own = self._sessions.get(session.host)
        if own is None:
            return
        own.pop(session.id, None)
        if not own:
            del self._sessions[session.host]


def host_of(address: Address) -> str:
    """An IPv4 address, or a /64 network of IPv6, of which one host may have all addresses."""
    return network_of(address[0])
