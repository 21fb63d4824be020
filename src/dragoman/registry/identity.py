"""The GUID of a schema: the MD5 of its content, the same in every registry of this kind."""

from __future__ import annotations

import hashlib
import json
import struct
import uuid
from collections.abc import Sequence

from dragoman.core.schema import Reference
from dragoman.registry.model import Json


def guid_of(text: str, references: Sequence[Reference], metadata: Json | None, rule_set: Json | None) -> str:
    """MD5 serves as a name here, not as a protection."""
    digest = hashlib.md5(text.encode(), usedforsecurity=False)
    for reference in references:
        digest.update(reference.name.encode())
        digest.update(reference.contract.encode())
        digest.update(struct.pack(">i", reference.version))
    for extra in (metadata, rule_set):
        if extra is not None:
            digest.update(b"\x01")
            digest.update(json.dumps(extra, sort_keys=True, separators=(",", ":")).encode())
    return str(uuid.UUID(bytes=digest.digest()))
