"""Publishers and subscribers as services that come and go, connected by whatever transport fits best."""

from __future__ import annotations

from dragoman.topology.admin import Admin
from dragoman.topology.allowlist import AllowList
from dragoman.topology.discovery import Discovery
from dragoman.topology.endpoint import Endpoint
from dragoman.topology.grouping import Flag
from dragoman.topology.interceptor import Interceptor, Passage
from dragoman.topology.manager import Topology
from dragoman.topology.multipart import Multipart
from dragoman.topology.presence import Availability, Change, Offer, Request
from dragoman.topology.publisher import Publisher
from dragoman.topology.serializer import Serializer
from dragoman.topology.signing import Signer, Trust
from dragoman.topology.topic import Role, Topic

__all__ = [
    "Admin",
    "AllowList",
    "Availability",
    "Change",
    "Discovery",
    "Endpoint",
    "Flag",
    "Interceptor",
    "Multipart",
    "Offer",
    "Passage",
    "Publisher",
    "Request",
    "Role",
    "Serializer",
    "Signer",
    "Topic",
    "Topology",
    "Trust",
]
