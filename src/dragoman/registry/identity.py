"""Names for the content of a schema: one for the text, one for its meaning.

The GUID is the MD5 of the text, the same in every registry of this kind. The *form* and the *identity* are
equal for schemas that are equal, however they are written; they are stored with each schema and never shown.
"""

from __future__ import annotations

import hashlib
import json
import struct
import uuid
from collections.abc import Sequence

from dragoman.core.schema import Reference
from dragoman.registry.model import Json

# MD5 serves as a name here, not as a protection.


def guid_of(text: str, references: Sequence[Reference], metadata: Json | None, rule_set: Json | None) -> str:
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


def digest_of(text: str) -> str:
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()


def form_of(type: str, normal: str, references: Sequence[Reference]) -> str:
    """The same for schemas of one type and normal form with the same references, in any order.

    ``normal`` is the digest of the normal form.
    """
    listed = sorted((each.name, each.contract, each.version) for each in references)
    return digest_of(json.dumps([type, normal, listed]))


def identity_of(form: str, metadata: Json | None, rule_set: Json | None) -> str:
    """The same for schemas of one form with the same metadata and rules, which have no empty members here."""
    return digest_of(json.dumps([form, metadata, rule_set], sort_keys=True))
