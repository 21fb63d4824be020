"""The registry's refusals: each with its stable code, in one place.

``CODES`` is the one table from a code to the HTTP status and to the number that clients of the
subject API know it by.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TypeVar

from dragoman.core.errors import (
    ConfigurationError,
    Conflict,
    DragomanError,
    Forbidden,
    IncompatibleSchema,
    InvalidSchema,
    NotFound,
    RegistryError,
    RegistryUnavailable,
)
from dragoman.registry.name import ContractName

T = TypeVar("T")

CODES: Mapping[str, tuple[int, int]] = {
    "registry.not-found.contract": (404, 40401),
    "registry.not-found.version": (404, 40402),
    "registry.not-found.schema": (404, 40403),
    "registry.contract-deleted-already": (404, 40404),
    "registry.contract-not-deleted-first": (404, 40405),
    "registry.version-deleted-already": (404, 40406),
    "registry.version-not-deleted-first": (404, 40407),
    "registry.not-found.settings": (404, 40408),
    "registry.not-found.mode": (404, 40409),
    "registry.not-found.binding": (404, 40410),
    "registry.not-found.key": (404, 40411),
    "registry.not-found": (404, 404),
    "schema.incompatible": (409, 40901),
    "registry.conflict": (409, 409),
    "schema.invalid": (422, 42201),
    "schema": (422, 42201),
    "registry.invalid.version": (422, 42202),
    "registry.invalid.compatibility": (422, 42203),
    "registry.invalid.mode": (422, 42204),
    "registry.not-permitted": (422, 42205),
    "registry.referenced": (422, 42206),
    "registry.id-mismatch": (422, 42207),
    "registry.invalid.name": (422, 42208),
    "registry.too-large": (413, 413),
    "registry.schema-too-large": (422, 42209),
    "registry.invalid.rule-set": (422, 42210),
    "registry.context-not-empty": (422, 42211),
    "registry.invalid.request": (400, 400),
    "registry.invalid": (422, 422),
    "configuration": (422, 42201),
    "registry.unauthenticated": (401, 40101),
    "registry.forbidden": (403, 40301),
    "registry.too-many-logins": (429, 42901),
    "registry.unavailable": (503, 50001),
    "registry": (500, 50001),
}

_CLASSES: Mapping[str, type[DragomanError]] = {
    "registry.not-found": NotFound,
    "registry.contract-deleted-already": NotFound,
    "registry.contract-not-deleted-first": Conflict,
    "registry.version-deleted-already": NotFound,
    "registry.version-not-deleted-first": Conflict,
    "registry.conflict": Conflict,
    "registry.not-permitted": Conflict,
    "registry.referenced": Conflict,
    "registry.id-mismatch": Conflict,
    "registry.context-not-empty": Conflict,
    "registry.unauthenticated": Forbidden,
    "registry.forbidden": Forbidden,
    "registry.too-many-logins": Forbidden,
    "registry.unavailable": RegistryUnavailable,
    "registry.invalid": ConfigurationError,
    "registry.too-large": ConfigurationError,
    "registry.schema-too-large": InvalidSchema,
    "schema.invalid": InvalidSchema,
    "schema": InvalidSchema,
    "schema.incompatible": IncompatibleSchema,
    "configuration": ConfigurationError,
}


def status_of(code: str) -> tuple[int, int]:
    """HTTP status and number of a code, or of the nearest wider one that the table has."""
    found = _nearest(CODES, code)
    return found if found is not None else (500, 50001)


def error_from(code: str, what: str, next: str, where: Mapping[str, object]) -> DragomanError:
    """The error that a registry elsewhere raised, rebuilt from its answer."""
    kind = _nearest(_CLASSES, code) or RegistryError
    return kind(what, next=next, code=code, **where)


def _nearest(table: Mapping[str, T], code: str) -> T | None:
    while code:
        if code in table:
            return table[code]
        code = code.rpartition(".")[0]
    return None


def no_contract(name: ContractName) -> NotFound:
    return NotFound(
        f"Subject '{name}' not found.",
        code="registry.not-found.contract",
        next="See the contracts there are with: dragoman registry list",
    )


def no_version(number: int | str) -> NotFound:
    return NotFound(f"Version {number} not found.", code="registry.not-found.version")


def no_schema(id: int | str | None = None) -> NotFound:
    what = "Schema not found" if id is None else f"Schema {id} not found"
    return NotFound(what, code="registry.not-found.schema")


def contract_deleted_already(name: ContractName) -> NotFound:
    return NotFound(
        f"Subject '{name}' was soft deleted. Set permanent=true to delete permanently",
        code="registry.contract-deleted-already",
    )


def contract_not_deleted_first(name: ContractName) -> Conflict:
    return Conflict(
        f"Subject '{name}' was not deleted first before being permanently deleted",
        code="registry.contract-not-deleted-first",
    )


def version_deleted_already(name: ContractName, number: int) -> NotFound:
    return NotFound(
        f"Subject '{name}' Version {number} was soft deleted. Set permanent=true to delete permanently",
        code="registry.version-deleted-already",
    )


def version_not_deleted_first(name: ContractName, number: int) -> Conflict:
    return Conflict(
        f"Subject '{name}' Version {number} was not deleted first before being permanently deleted",
        code="registry.version-not-deleted-first",
    )


def no_settings(name: ContractName) -> NotFound:
    return NotFound(
        f"Subject '{name}' does not have subject-level compatibility configured",
        code="registry.not-found.settings",
    )


def no_mode(name: ContractName) -> NotFound:
    return NotFound(
        f"Subject '{name}' does not have subject-level mode configured", code="registry.not-found.mode"
    )


def no_binding(name: ContractName, channel: str) -> NotFound:
    return NotFound(f"'{name}' is not bound to channel {channel!r}.", code="registry.not-found.binding")


def referenced(name: ContractName, number: int) -> Conflict:
    return Conflict(
        "One or more references exist to the schema"
        f" {{magic=1,keytype=SCHEMA,subject={name},version={number}}}.",
        code="registry.referenced",
        next="Delete the versions that refer to it first.",
    )


def not_permitted(what: str) -> Conflict:
    return Conflict(what, code="registry.not-permitted")


def read_only(scope: ContractName) -> Conflict:
    context = f"context {scope.context}"
    return not_permitted(
        f"{f'Subject {scope} in {context}' if scope.contract else context.capitalize()} is in read-only mode"
    )


def invalid_version(text: object) -> ConfigurationError:
    return ConfigurationError(
        f"The specified version '{text}' is not a valid version id. "
        'Allowed values are between [1, 2^31-1] and the string "latest"',
        code="registry.invalid.version",
    )


def invalid_compatibility() -> ConfigurationError:
    return ConfigurationError(
        "Invalid compatibility level. Valid values are none, backward, forward, full, backward_transitive, "
        "forward_transitive, and full_transitive",
        code="registry.invalid.compatibility",
    )


def invalid_policy() -> ConfigurationError:
    return ConfigurationError(
        "Invalid compatibility policy. Valid values are strict, lenient and exact",
        code="registry.invalid.compatibility",
    )


def unauthenticated(what: str = "Credentials are missing or wrong.") -> Forbidden:
    return Forbidden(
        what,
        code="registry.unauthenticated",
        next="Send a user and password, or a key or JWT as bearer token.",
    )


def too_many_wrong_passwords(seconds: float) -> Forbidden:
    """``retry_after_s`` goes into the header ``Retry-After``."""
    return Forbidden(
        "Too many wrong passwords came from this address.",
        code="registry.too-many-logins",
        next="Try again after the seconds in the header Retry-After, or use a generated key.",
        retry_after_s=max(1, math.ceil(seconds)),
    )


def too_many_logins(seconds: float) -> Forbidden:
    """No password was wrong: too many others wait to be checked."""
    return Forbidden(
        "Too many logins wait to be checked.",
        code="registry.too-many-logins",
        next="Try again after the seconds in the header Retry-After, or use a generated key.",
        retry_after_s=max(1, math.ceil(seconds)),
    )


def invalid_mode() -> ConfigurationError:
    return ConfigurationError(
        "Invalid mode. Valid values are READWRITE, READONLY, READONLY_OVERRIDE, IMPORT and FORWARD.",
        code="registry.invalid.mode",
    )
