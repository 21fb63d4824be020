"""SEP, the SIMEX exchange protocol, version 1, over UDP. The specification is ``docs/sep.md``."""

from __future__ import annotations

from dragoman.gateway.sep.client import SepClient
from dragoman.gateway.sep.keys import ServerKey, Suite
from dragoman.gateway.sep.limits import SepLimits
from dragoman.gateway.sep.message import Operation, Reply
from dragoman.gateway.sep.server import SepServer

__all__ = ["Operation", "Reply", "SepClient", "SepLimits", "SepServer", "ServerKey", "Suite"]
