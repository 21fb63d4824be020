"""The registry's own values: what is stored, and what a request proposes."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

import msgspec

from dragoman.core.contract import Compatibility
from dragoman.core.format import Policy
from dragoman.core.schema import Reference, Schema
from dragoman.registry.access import Grant
from dragoman.registry.name import ContractName, contract_name
from dragoman.registry.rules import check_metadata, check_rule_set
from dragoman.schema.framing import MAX_ID

LATEST = -1
"""The version number that stands for the latest one, also in references."""
GREATEST_NUMBER = MAX_ID
"""Of ids and of versions: an id has to fit a frame, and clients read both as 32 bits with a sign."""


Json = dict[str, Any]


class Mode(StrEnum):
    READWRITE = "READWRITE"
    READONLY = "READONLY"
    READONLY_OVERRIDE = "READONLY_OVERRIDE"
    IMPORT = "IMPORT"
    """Ids and versions are given by the caller, nothing is checked for compatibility."""
    FORWARD = "FORWARD"

    @property
    def writable(self) -> bool:
        return self in (Mode.READWRITE, Mode.IMPORT, Mode.FORWARD)

    @property
    def importing(self) -> bool:
        return self in (Mode.IMPORT, Mode.FORWARD)


@dataclass(frozen=True, slots=True)
class Draft:
    """A schema as a request brings it. ``id`` and ``version`` are only set by imports."""

    type: str
    text: str
    references: tuple[Reference, ...] = ()
    metadata: Json | None = None
    rule_set: Json | None = None
    id: int | None = None
    version: int | None = None

    def __post_init__(self) -> None:
        check_metadata(self.metadata)
        check_rule_set(self.rule_set)

    @classmethod
    def of(cls, schema: Schema) -> Draft:
        return cls(schema.type, schema.text, schema.references)


@dataclass(frozen=True, slots=True)
class StoredSchema:
    """One row of the schemas. The same content may have several ids, if imports brought them."""

    context: str
    id: int
    guid: str
    type: str
    text: str
    references: tuple[Reference, ...] = ()
    metadata: Json | None = None
    rule_set: Json | None = None
    fingerprint: str | None = None
    form: str | None = None
    """Equal for schemas that are equal but for metadata and rules. See ``dragoman.registry.identity``."""
    identity: str | None = None
    """Equal for schemas that are equal in all."""

    def value(self) -> Schema:
        return Schema(self.type, self.text, self.references, self.id, self.fingerprint)


@dataclass(frozen=True, slots=True)
class StoredVersion:
    """One version of a contract, with its schema."""

    name: ContractName
    version: int
    schema: StoredSchema
    deleted: bool = False
    created: float = 0.0
    author: str = ""


@dataclass(frozen=True, slots=True)
class Settings:
    """What may be set for a contract, a context, or all. ``None`` leaves it to the next wider scope."""

    compatibility: Compatibility | None = None
    policy: Policy | None = None
    """Each format has its usual one."""
    group: str | None = None
    """The metadata property whose value must agree for two versions to be compared."""
    normalize: bool | None = None
    validate_fields: bool | None = None
    validate_rules: bool | None = None
    alias: str | None = None
    default_metadata: Json | None = None
    override_metadata: Json | None = None
    default_rule_set: Json | None = None
    override_rule_set: Json | None = None
    attributes: Json | None = None
    """What OpenSchema says of a subject beside its versions."""

    def over(self, wider: Settings) -> Settings:
        """These settings, and the wider scope's where these say nothing.

        Alias and attributes belong to one scope alone.
        """
        chosen: dict[str, Any] = {}
        for each in fields(self):
            mine = getattr(self, each.name)
            inherited = None if each.name in ("alias", "attributes") else getattr(wider, each.name)
            chosen[each.name] = mine if mine is not None else inherited
        return Settings(**chosen)

    def check(self) -> None:
        """Refuse what nobody could use later."""
        if self.alias:
            contract_name(self.alias)
        for metadata in (self.default_metadata, self.override_metadata):
            check_metadata(metadata)
        for rule_set in (self.default_rule_set, self.override_rule_set):
            check_rule_set(rule_set)

    def stored(self) -> Json:
        return {each.name: value for each in fields(self) if (value := getattr(self, each.name)) is not None}

    @classmethod
    def restored(cls, stored: Json) -> Settings:
        """Raises ``msgspec.ValidationError`` for values of the wrong kind."""
        return msgspec.convert(stored, cls)


DEFAULTS = Settings(compatibility=Compatibility.BACKWARD, normalize=False)


@dataclass(frozen=True, slots=True)
class Key:
    """A credential. ``secret`` is a hash; ``kind`` is ``key`` for a generated one, ``password`` else."""

    id: str
    kind: str
    owner: str
    secret: str
    grants: tuple[Grant, ...]
    created: float = 0.0
    expires: float | None = None


@dataclass(frozen=True, slots=True)
class Change:
    """One line of the history: who did what to which contract, and when."""

    id: int
    at: float
    author: str
    action: str
    name: ContractName
    version: int | None = None
    detail: Json = field(default_factory=dict)

    def value(self) -> Json:
        """As the APIs show it."""
        return {
            "id": self.id,
            "at": datetime.fromtimestamp(self.at, UTC).isoformat(timespec="milliseconds"),
            "author": self.author,
            "action": self.action,
            "contract": str(self.name),
            "version": self.version,
            "detail": self.detail,
        }
