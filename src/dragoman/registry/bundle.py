"""The whole registry as one value: for export, import, and backup. Ids and versions are kept."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec

from dragoman.core.channel import check_name
from dragoman.core.database import Transaction
from dragoman.core.errors import ConfigurationError, Conflict
from dragoman.core.schema import Reference
from dragoman.registry.model import Draft, Json, Mode, Settings, StoredVersion
from dragoman.registry.name import ContractName, contract_name, parse_name
from dragoman.registry.parsing import Parser
from dragoman.registry.registration import Registration, import_version
from dragoman.registry.store import contracts, history, schemas, settings

FORMAT = 1


Number = Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)]
Next = Annotated[int, msgspec.Meta(ge=1, le=2**31)]


class ReferenceEntry(msgspec.Struct):
    name: str
    contract: str
    version: Annotated[int, msgspec.Meta(ge=-1, le=2**31 - 1)]


class VersionEntry(msgspec.Struct, omit_defaults=True):
    version: Number
    id: Number
    type: str
    schema: str
    references: list[ReferenceEntry] = []
    metadata: Json | None = None
    rule_set: Json | None = None
    deleted: bool = False


class ContractEntry(msgspec.Struct, omit_defaults=True):
    """``next`` is the number of the next version: those of deleted ones are not given again."""

    name: str
    next: Next = 1
    versions: list[VersionEntry] = []
    channels: list[str] = []


class ScopeEntry(msgspec.Struct, omit_defaults=True):
    """Settings and mode of a contract or a context."""

    name: str
    settings: Json | None = None
    mode: str | None = None


class Bundle(msgspec.Struct, omit_defaults=True):
    format: int
    contexts: dict[str, Next] = {}
    """The id that the next schema of each context gets."""
    contracts: list[ContractEntry] = []
    scopes: list[ScopeEntry] = []
    high_ids: dict[str, list[Number]] = {}
    """The ids of each context that the next id alone does not keep from being given again."""


def collect(tx: Transaction) -> Bundle:
    """Everything, as it is at this instant."""
    found: dict[ContractName, list[VersionEntry]] = {}
    for version in contracts.all_versions(tx, deleted=True):
        found.setdefault(version.name, []).append(_entry(version))
    entries = [
        ContractEntry(str(name), next, found.get(name, []), list(history.channels_of(tx, name)))
        for name, next in contracts.counters(tx)
    ]
    scopes = [_scope(row) for row in settings.everything(tx)]
    return Bundle(FORMAT, schemas.counters(tx), entries, scopes, schemas.high_ids(tx))


def _entry(version: StoredVersion) -> VersionEntry:
    schema = version.schema
    references = [ReferenceEntry(each.name, each.contract, each.version) for each in schema.references]
    return VersionEntry(
        version.version,
        schema.id,
        schema.type,
        schema.text,
        references,
        schema.metadata,
        schema.rule_set,
        version.deleted,
    )


def _scope(row: tuple[ContractName, Settings | None, Mode | None]) -> ScopeEntry:
    name, own, mode = row
    qualified = f":{name.context}:{name.contract}" if not name.contract else str(name)
    return ScopeEntry(qualified, own.stored() if own else None, mode.value if mode else None)


def contexts_in(bundle: Bundle) -> set[str]:
    names = [each.name for each in bundle.contracts] + [each.name for each in bundle.scopes]
    return {parse_name(name).context for name in names} | set(bundle.contexts) | set(bundle.high_ids)


def restore(tx: Transaction, parser: Parser, bundle: Bundle, *, author: str) -> Mapping[str, int]:
    """Bring a bundle in. What is there already is left as it is; what contradicts it stops everything."""
    if bundle.format != FORMAT:
        raise ConfigurationError(
            f"The export has format {bundle.format}, this program reads {FORMAT}.",
            code="registry.invalid.bundle",
        )
    added = known = 0
    for name, entry in _in_order(bundle):
        new = _restore_version(tx, parser, name, entry, author)
        added, known = added + new, known + (not new)
    for contract in bundle.contracts:
        name = contract_name(contract.name)
        if contract.next > contracts.next_version(tx, name):
            contracts.raise_next_version(tx, name, contract.next - 1)
        for channel in contract.channels:
            history.bind(tx, name, check_name(channel), author)
    for context, next in bundle.contexts.items():
        schemas.raise_next_id(tx, context, next - 1)
    for context, ids in bundle.high_ids.items():
        for id in ids:
            schemas.keep_high_id(tx, context, id)
    for scope in bundle.scopes:
        _restore_scope(tx, scope, author)
    return {"added": added, "known": known}


def _in_order(bundle: Bundle) -> list[tuple[ContractName, VersionEntry]]:
    """By id, so that what is referred to comes first; of one schema the hidden versions before the live."""
    found = [(contract_name(each.name), entry) for each in bundle.contracts for entry in each.versions]
    return sorted(found, key=lambda each: (each[1].id, not each[1].deleted, each[1].version))


def _restore_version(
    tx: Transaction, parser: Parser, name: ContractName, entry: VersionEntry, author: str
) -> bool:
    present = contracts.version(tx, name, entry.version, deleted=True)
    if present is not None:
        if present.schema.id != entry.id or present.schema.text != entry.schema:
            raise Conflict(
                f"Version {entry.version} of '{name}' is here already, with another schema.",
                next="Import into an empty registry, or delete that contract first.",
            )
        return False
    references = tuple(Reference(each.name, each.contract, each.version) for each in entry.references)
    draft = Draft(
        entry.type, entry.schema, references, entry.metadata, entry.rule_set, entry.id, entry.version
    )
    import_version(tx, parser, Registration(name, draft, author=author))
    if entry.deleted:
        contracts.hide(tx, name, entry.version)
    return True


def _restore_scope(tx: Transaction, scope: ScopeEntry, author: str) -> None:
    name = parse_name(scope.name)
    try:
        own = None if scope.settings is None else Settings.restored(scope.settings)
        mode = None if scope.mode is None else Mode(scope.mode)
    except (ValueError, msgspec.ValidationError) as error:
        raise ConfigurationError(
            f"The settings of '{name}' are not right: {error}.", code="registry.invalid.bundle"
        ) from None
    if own is not None:
        own.check()
        settings.set_own(tx, name, own)
        history.record(tx, author, "configure", name, None, own.stored())
    if mode is not None:
        settings.set_mode(tx, name, mode)
        history.record(tx, author, "mode", name, None, {"mode": mode.value})


def to_json(bundle: Bundle) -> bytes:
    return msgspec.json.encode(bundle)


def from_json(data: bytes) -> Bundle:
    try:
        return msgspec.json.decode(data, type=Bundle)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ConfigurationError(
            f"This is not an export of a registry: {error}.",
            code="registry.invalid.bundle",
            next="Name the directory of an export, or the file of a backup.",
        ) from None


def from_value(value: Any) -> Bundle:
    try:
        return msgspec.convert(value, Bundle)
    except msgspec.ValidationError as error:
        raise ConfigurationError(
            f"This is not an export of a registry: {error}.",
            code="registry.invalid.bundle",
            next="Name the directory of an export, or the file of a backup.",
        ) from None
